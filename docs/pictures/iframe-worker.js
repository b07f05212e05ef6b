// iframe-worker: search in pages that are opened as files: browsers allow no worker there, so its script runs in a hidden frame.
if (location.protocol === "file:") {
  // The theme's worker looks for this name to find the path of its scripts.
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.scope = frame.contentWindow
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.scope.importScripts = (...urls) =>
        urls.reduce((earlier, each) => earlier.then(() => load(frame.contentDocument, each)), Promise.resolve())
      this.ready = load(frame.contentDocument, url)
    }

    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}

function load(page, url) {
  return new Promise((resolve, reject) => {
    const script = page.createElement("script")
    Object.assign(script, { src: new URL(url, location.href).href, onload: resolve, onerror: reject })
    page.body.append(script)
  })
}
