/* Translates the lines of standard input with an exported SavedModel: no Python, no server, TensorFlow's C API alone.
 *
 *   translate saved_models/dates/1 < dates.txt
 *   translate saved_models/en_de/1 LIBRARY... < sentences.txt
 *
 * The libraries are those of TensorFlow Text, for tokenizers that need its operations. README.md beside this
 * file has the commands that compile it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

enum { SIGNATURES = 5, INPUTS = 1, OUTPUTS = 2, KEY = 1, VALUE = 2, TENSOR_NAME = 1 };

/* A message in the wire format of Protocol Buffers: its bytes that are not read yet. */
typedef struct {
  const uint8_t *next, *end;
} Message;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(2);
}

static void check(const TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

static uint64_t read_varint(Message *message) {
  uint64_t value = 0;
  for (int shift = 0; message->next < message->end && shift < 64; shift += 7) {
    uint8_t byte = *message->next++;
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) break;
  }
  return value;
}

/* Reads the next field; a field that holds bytes gives them in `content`. Returns its number, 0 at the end. */
static uint64_t read_field(Message *message, Message *content) {
  if (message->next >= message->end) return 0;
  uint64_t tag = read_varint(message), kind = tag & 7;
  uint64_t size = kind == 1 ? 8 : kind == 5 ? 4 : kind == 0 ? 0 : read_varint(message);
  if (kind == 0) read_varint(message);
  if (size > (uint64_t)(message->end - message->next)) fail("saved_model.pb", "a field is longer than its message");
  *content = (Message){message->next, message->next + size};
  message->next += size;
  return tag >> 3;
}

/* Finds `key` in the map that is field `map` of a message. */
static Message find(Message message, uint64_t map, const char *key) {
  Message entry, part, value = {NULL, NULL};
  uint64_t field;
  while ((field = read_field(&message, &entry))) {
    if (field != map) continue;
    int is_key = 0;
    while ((field = read_field(&entry, &part))) {
      if (field == KEY) is_key = strlen(key) == (size_t)(part.end - part.next) && !memcmp(part.next, key, strlen(key));
      if (field == VALUE) value = part;
    }
    if (is_key) return value;
  }
  fail("the signature serving_default has no", key);
  return value;
}

/* Finds the tensor that a signature calls `key`: its name is `operation:index`. */
static TF_Output find_tensor(TF_Graph *graph, Message signature, uint64_t side, const char *key) {
  Message info = find(signature, side, key), name;
  while (read_field(&info, &name) != TENSOR_NAME) continue;
  char operation[256];
  int index = 0;
  snprintf(operation, sizeof operation, "%.*s", (int)(name.end - name.next), (const char *)name.next);
  char *colon = strrchr(operation, ':');
  if (colon) {
    *colon = '\0';
    index = atoi(colon + 1);
  }
  TF_Operation *found = TF_GraphOperationByName(graph, operation);
  if (!found) fail("the graph has no operation", operation);
  return (TF_Output){found, index};
}

static TF_Tensor *make_text(const char *line, size_t length) {
  int64_t rows = 1;
  TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, &rows, 1, sizeof(TF_TString));
  TF_TString *text = TF_TensorData(tensor);
  TF_StringInit(text);
  TF_StringCopy(text, line, length);
  return tensor;
}

int main(int argc, char **argv) {
  if (argc < 2) fail("usage", "translate DIRECTORY [LIBRARY...] < lines");
  TF_Status *status = TF_NewStatus();
  for (int i = 2; i < argc; ++i) {
    TF_LoadLibrary(argv[i], status);
    check(status, argv[i]);
  }
  const char *tags[] = {"serve"};
  TF_Graph *graph = TF_NewGraph();
  TF_Buffer *meta_graph = TF_NewBuffer();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, meta_graph, status);
  check(status, argv[1]);

  const uint8_t *bytes = meta_graph->data;
  Message signature = find((Message){bytes, bytes + meta_graph->length}, SIGNATURES, "serving_default");
  TF_Output input = find_tensor(graph, signature, INPUTS, "text");
  TF_Output outputs[] = {find_tensor(graph, signature, OUTPUTS, "score"),
                         find_tensor(graph, signature, OUTPUTS, "output")};

  char *line = NULL;
  size_t room = 0;
  for (ssize_t length; (length = getline(&line, &room, stdin)) >= 0;) {
    if (length && line[length - 1] == '\n') --length;
    TF_Tensor *text = make_text(line, (size_t)length), *answers[2];
    TF_SessionRun(session, NULL, &input, &text, 1, outputs, answers, 2, NULL, 0, NULL, status);
    check(status, "TF_SessionRun");
    const TF_TString *answer = TF_TensorData(answers[1]);
    printf("%.3f\t%.*s\n", *(const float *)TF_TensorData(answers[0]), (int)TF_StringGetSize(answer),
           TF_StringGetDataPointer(answer));
    for (int i = 0; i < 2; ++i) TF_DeleteTensor(answers[i]);
    TF_DeleteTensor(text);
  }
  free(line);
  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteBuffer(meta_graph);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
