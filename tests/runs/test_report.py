"""`report.html`: one file with everything in it, whose texts are texts, and which a browser shows offline."""

import csv
import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import keras_transformer as kt

PAIRS = [
    ("<script>alert('w1ab')</script>", "<b>&amp;</b>"),
    ("שלום w1ab", "W1AB"),
    ("月 w2ab", "W2AB"),
    *((f"w{number}ab", f"W{number}AB") for number in range(3)),
]


@pytest.fixture(scope="module")
def directory(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was scored on hard texts; it had nothing left to train."""
    directory = tmp_path_factory.mktemp("report") / "tiny's"
    shutil.copytree(trained / "runs/tiny", directory)
    (directory / "report.html").unlink()
    config = json.loads((directory / "config.json").read_text())
    del config["checksums"]  # it is changed by hand
    for number, side in enumerate(("test_source", "test_target")):
        path = directory.parent / side
        path.write_text("".join(f"{pair[number]}\n" for pair in PAIRS), encoding="utf-8")
        config["data"][side] = str(path)
    (directory / "config.json").write_text(json.dumps(config))
    kt.Run.open(directory).train(resume=True, verbose=0)
    return directory


@pytest.fixture(scope="module")
def page(directory: Path) -> str:
    return (directory / "report.html").read_text(encoding="utf-8")


class Elements(HTMLParser):
    """Collects what stands in the elements of a page, and their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = defaultdict(list)
        self.attributes: list[tuple[str, str | None]] = []
        self._tag = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag
        self.texts[tag].append("")
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self._tag:
            self.texts[self._tag][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._tag = ""


def answers_of(page: str) -> list[dict[str, Any]]:
    return json.loads(Elements(page).texts["script"][0])


def test_nothing_is_loaded(page: str) -> None:
    links = [value for name, value in Elements(page).attributes if name in ("href", "src", "srcset")]
    assert len(links) > 5
    assert all(link.startswith(("#", "data:")) for link in links)
    assert not re.search(r"@import|url\(", page)
    assert "default-src 'none'" in page


def test_texts_are_texts(page: str) -> None:
    elements = Elements(page)
    assert len(elements.texts["script"]) == 2  # the maps, and what draws them
    # Among the worst, among the best, and at random.
    assert [elements.texts["dd"].count(source) for source, _ in PAIRS[:2]] == [3, 3]
    assert any(answer["text"].startswith(PAIRS[0][0]) for answer in answers_of(page))
    assert """/tiny'"'"'s' '<script>alert('"'"'w1ab""" in "".join(elements.texts["pre"])


@pytest.mark.slow
def test_attention_of_each_layer_and_head(page: str, directory: Path) -> None:
    answers = answers_of(page)
    assert len(answers) == len(PAIRS)
    first = next(answer for answer in answers if answer["text"].startswith(PAIRS[0][0]))
    assert first["source"][:3] == ["[UNK]", "[UNK]", "[UNK]"]  # no such letters were trained on
    assert first["source"][-1] == "[END]"
    assert first["read"] == ["[START]", *first["written"][:-1]]
    sides = {"encoder/layer_1/self_attention": ("source", "source")}
    sides["decoder/layer_1/self_attention"] = ("written", "read")
    sides["decoder/layer_1/cross_attention"] = ("written", "source")
    for answer in answers:
        assert answer["maps"].keys() == sides.keys()
        for name, (rows, columns) in sides.items():
            weights = np.array(answer["maps"][name])
            assert weights.shape == (2, len(answer[rows]), len(answer[columns]))
            np.testing.assert_allclose(weights.sum(axis=-1), 1000, atol=weights.shape[-1])
    alignment, maps = kt.Translator.load(directory).attention_maps(PAIRS[0][0])
    np.testing.assert_allclose(first["maps"]["decoder/layer_1/cross_attention"], 1000 * maps[name], atol=1)
    [aligned] = kt.Translator.load(directory).align([PAIRS[0][0]])
    np.testing.assert_allclose(alignment.attention, aligned.attention, atol=1e-5)
    assert (alignment.text, alignment.source_tokens, alignment.output_tokens) == (
        aligned.text,
        aligned.source_tokens,
        aligned.output_tokens,
    )


def test_what_else_is_shown(page: str, directory: Path) -> None:
    for part in ("exact match", ">6</b>scored pairs", "<h3>worst", "<h3>best", "Most frequent in training"):
        assert part in page
    for name in ("loss", "learning rate", "accuracy", "perplexity", "tokens per second", "padding"):
        assert f'aria-label="{name} by epoch"' in page
    with (directory / "training.csv").open(encoding="utf-8") as file:
        [row] = csv.DictReader(file)
    assert float(row["learning_rate"]) == pytest.approx(1e-3)  # the warm-up is one update
    assert f"training, epoch 1: {float(row['learning_rate']):.6g}" in page
    assert re.search(r">intermediate_dim</th><td class=\"changed\">8<", page)
    assert len(page) < 300_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no chromium with its chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage"):
        options.add_argument(f"--{word}")
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield browser
    browser.quit()


# The title of the map, its labels, those of the columns first, and how dark each cell is.
DRAWN = """
const all = place => [...document.querySelectorAll(place)];
return [
  document.getElementById("title").textContent,
  all("#map text").map(label => label.textContent),
  all("#map rect[data-s]").map(cell => cell.getAttribute("fill-opacity")),
];
"""


def test_a_browser_shows_it_offline(browser: Any, directory: Path) -> None:
    by = pytest.importorskip("selenium.webdriver.common.by").By.CSS_SELECTOR
    browser.get((directory / "report.html").as_uri())
    seen = [browser.execute_script(DRAWN)]
    assert seen[0][0] == "cross-attention, layer 1, mean of heads"
    for place in (
        "[aria-label$='head 2']",
        "[data-kind=encoder]",
        "[data-kind=decoder]",
        "[data-answer='3']",
    ):
        element = browser.find_element(by, place)
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        seen.append(browser.execute_script(DRAWN))
        assert seen[-1] not in seen[:-1], place
    assert seen[2][0] == "encoder self-attention, layer 1, head 2"
    assert browser.find_element(by, "#answer").get_property("value") == "3"
    browser.find_element(by, "#map [data-t='1'][data-s='0']").click()
    looking, weight = browser.find_element(by, "#readout").text.rsplit(": ", 1)
    labels = seen[-1][1]  # as many columns as rows, in the decoder's self-attention
    assert looking == f"{labels[len(labels) // 2 + 1]} attends to [START]"
    assert 0 < float(weight) <= 1
    # At the width of a phone nothing but tables and maps scrolls sideways.
    phone = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    browser.refresh()
    assert browser.execute_script("return document.documentElement.scrollWidth") == 360
    assert browser.execute_script(DRAWN) == seen[0]
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
    assert {each["request"]["url"].partition(":")[0] for each in sent} <= {"file", "data"}
    assert sent
