#include "onnx_file.h"

#include <cstdlib>
#include <cstring>

#include "error.h"
#include "geometry.h"
#include "sha256.h"

namespace rebnn {
namespace {

enum Wire { kVarint = 0, kLength = 2, kFixed32 = 5 };
enum AttributeType {
  kRealAttribute = 1,
  kIntAttribute = 2,
  kTextAttribute = 3,
  kTensorAttribute = 4,
  kIntsAttribute = 7
};

bool Refuse(const char* what) {
  Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_load: %s.", what);
  return false;
}

bool RefuseDamage() { return Refuse("the file is not a packed model, or it is damaged"); }

// The fields of a message, one after the other.
class Fields {
 public:
  explicit Fields(Span message) : at_(message.data), end_(message.data + message.size) {}

  // False at the end, and where the message is damaged, which `whole` tells apart.
  bool Next() {
    start = at_;
    if (at_ == end_) return false;
    whole = false;
    uint64_t key;
    if (!Number(&key) || key >> 3 == 0 || key >> 3 >= 1 << 29) return false;
    number = static_cast<int>(key >> 3);
    wire = static_cast<int>(key & 7);
    if (wire == kVarint) return whole = Number(&value);
    if (wire == kLength) {
      if (!Number(&value)) return false;
    } else if (wire == kFixed32) {
      value = 4;
    } else {
      return false;
    }
    if (value > static_cast<uint64_t>(end_ - at_)) return false;
    content = {at_, static_cast<size_t>(value)};
    at_ += value;
    return whole = true;
  }

  bool AtEnd() const { return at_ == end_; }

  // The content of a text or message.
  bool Take(Span* to) const {
    *to = content;
    return wire == kLength || RefuseDamage();
  }
  bool Take(int64_t* to) const {
    *to = static_cast<int64_t>(value);
    return wire == kVarint || RefuseDamage();
  }

  int number = 0, wire = 0;
  uint64_t value = 0;
  Span content = {};
  const uint8_t* start = nullptr;
  bool whole = true;

 private:
  bool Number(uint64_t* number) {
    *number = 0;
    for (int shift = 0; shift < 70 && at_ < end_; shift += 7) {
      const uint8_t byte = *at_++;
      *number |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  const uint8_t* at_;
  const uint8_t* end_;
};

// Calls `look(field)` for each field of a message until it returns false; false, with a sentence, then and for a
// damaged message.
template <class Look>
bool ForEachField(Span message, Look look) {
  Fields field(message);
  while (field.Next()) {
    if (!look(field)) return false;
  }
  return field.whole || RefuseDamage();
}

// Unpacks integers that are stored in as few bytes as each needs, of which only the lowest 8 bits count.
bool ReadLevels(Span packed, uint8_t** levels, Span* raw) {
  raw->data = *levels;
  for (size_t i = 0; i < packed.size; ++i) {
    const uint8_t low = packed.data[i];
    uint8_t next = 0;
    int length = 1;
    for (; packed.data[i] & 0x80; ++length) {
      if (++i == packed.size || length == 10) return RefuseDamage();
      if (length == 1) next = packed.data[i];
    }
    *(*levels)++ = static_cast<uint8_t>((low & 0x7f) | next << 7);
  }
  raw->size = static_cast<size_t>(*levels - raw->data);
  return true;
}

// `levels` has room for what ReadLevels unpacks; NULL where it is not expected.
bool ReadTensor(Span message, uint8_t** levels, Constant* tensor) {
  *tensor = {};
  bool has_raw = false;
  const bool read = ForEachField(message, [&](const Fields& field) {
    switch (field.number) {
      case 1:
        if (tensor->rank == kMostDims)
          return Refuse("a constant has more than 4 dimensions, which no packed model has");
        return field.Take(&tensor->dims[tensor->rank++]);
      case 2:
        return field.Take(&tensor->type);
      case 8:
        return field.Take(&tensor->name);
      case 4:  // which are the bytes of a float each
      case 9:
        if (has_raw) return Refuse("a constant is stored twice");
        has_raw = true;
        return field.Take(&tensor->raw);
      case 5: {
        Span packed;
        if (has_raw || !levels) return Refuse("a constant is stored twice, or as integers of 32 bits");
        has_raw = true;
        return field.Take(&packed) && ReadLevels(packed, levels, &tensor->raw);
      }
      default:
        return Refuse("a constant is not stored as any of a packed model is");
    }
  });
  if (!read) return false;
  const int64_t type = tensor->type;
  int64_t size = type == kFloat || type == kInt32 ? 4 : type == kHalf ? 2 : type == kInt64 ? 8 : 1;
  if (size == 1 && type != kUint8 && type != kInt8) return Refuse("a constant is of a type that no packed model has");
  for (int i = 0; i < tensor->rank; ++i) {
    if (tensor->dims[i] < 0 || tensor->dims[i] > kMaxSide) return Refuse("a constant has a size out of range");
    size = Product({size, tensor->dims[i]});
    if (size < 0) return Refuse("a constant has a size out of range");
  }
  if (!has_raw || tensor->raw.size != static_cast<size_t>(size)) {
    return Refuse("a constant has other bytes than its size says");
  }
  return true;
}

bool ReadNode(Span message, Node* node) {
  *node = {};
  node->attributes.node = message;
  return ForEachField(message, [&](const Fields& field) {
    Span text;
    if (!field.Take(&text)) return false;
    switch (field.number) {
      case 1:
        if (node->input_count == Node::kMostInputs) return Refuse("a node has more inputs than any of a packed model");
        node->inputs[node->input_count++] = text;
        return true;
      case 2:
        if (node->output_count == Node::kMostOutputs)
          return Refuse("a node has more outputs than any of a packed model");
        node->outputs[node->output_count++] = text;
        return true;
      case 4:
        node->op = text;
        return true;
      case 7:
        node->domain = text;
        return true;
      case 3:
      case 5:
      case 6:
      case 9:
        return true;
      default:
        return Refuse("a node has a field that no packed model has");
    }
  });
}

// Name, type and size of an input or output of the graph.
bool ReadInterface(Span message, Span* name, int64_t* type, int* rank, int64_t* dims) {
  *rank = 0;
  return ForEachField(message, [&](const Fields& field) {
    if (field.number == 1) return field.Take(name);
    Span of_type;
    if (field.number != 2) return true;
    return field.Take(&of_type) && ForEachField(of_type, [&](const Fields& kind) {
      Span tensor;
      if (kind.number != 1) return true;
      return kind.Take(&tensor) && ForEachField(tensor, [&](const Fields& part) {
        if (part.number == 1) return part.Take(type);
        Span shape;
        if (part.number != 2) return true;
        return part.Take(&shape) && ForEachField(shape, [&](const Fields& axis) {
          Span dim;
          if (axis.number != 1) return true;
          if (*rank == kMostDims) return Refuse("an input or output of the file has more than 4 dimensions");
          int64_t* size = &dims[(*rank)++];
          *size = -1;
          return axis.Take(&dim) && ForEachField(dim, [&](const Fields& length) {
            return length.number != 1 || length.Take(size);
          });
        });
      });
    });
  });
}

bool ReadGraph(Span message, OnnxFile* file) {
  int nodes = 0, constants = 0, inputs = 0;
  size_t levels = 0;
  const bool counted = ForEachField(message, [&](const Fields& field) {
    switch (field.number) {
      case 1:
        return ++nodes <= OnnxFile::kMostNodes ||
               Refuse("the graph has more nodes than any packed model that this reader knows");
      case 5: {
        Span content;
        if (++constants > OnnxFile::kMostConstants) {
          return Refuse("the graph has more constants than any packed model that this reader knows");
        }
        return field.Take(&content) && ForEachField(content, [&](const Fields& part) {
          if (part.number == 5 && part.wire == kLength) levels += part.content.size;
          return true;
        });
      }
      case 2:
      case 10:
      case 11:
      case 12:
      case 13:
        return true;
      default:
        return Refuse("the graph has a field that no packed model has");
    }
  });
  if (!counted) return false;
  file->nodes = static_cast<Node*>(std::calloc(nodes + 1, sizeof(Node)));
  file->constants = static_cast<Constant*>(std::calloc(constants + 1, sizeof(Constant)));
  file->levels = static_cast<uint8_t*>(std::malloc(levels + 1));
  file->no_memory = !file->nodes || !file->constants || !file->levels;
  if (file->no_memory) {
    Fail(REBNN_OUT_OF_MEMORY, "rebnn_model_load: no memory for the list of %d nodes.", nodes);
    return false;
  }
  uint8_t* to = file->levels;
  int64_t type = 0, ignored[kMostDims];
  int rank = 0;
  const bool read = ForEachField(message, [&](const Fields& field) {
    Span content;
    if (!field.Take(&content)) return false;
    switch (field.number) {
      case 1:
        return ReadNode(content, &file->nodes[file->node_count++]);
      case 5:
        return ReadTensor(content, &to, &file->constants[file->constant_count++]);
      case 11:
        if (++inputs == 1) {
          return ReadInterface(content, &file->input, &type, &rank, file->image) &&
                 ((type == kFloat && rank == 4) || Refuse("the file's input is not a float image of 4 dimensions"));
        }
        return ReadInterface(content, &file->valid_size, &type, &rank, ignored) &&
               ((type == kInt64 && rank == 1) || Refuse("the file's second input is not the size of an image"));
      case 12:
        if (file->output_count == OnnxFile::kMostOutputs) return Refuse("the file has more outputs than a detector");
        return ReadInterface(content, &file->outputs[file->output_count++], &type, &rank, ignored);
      default:
        return true;
    }
  });
  if (!read) return false;
  if (file->is_detector) {
    return (inputs == 2 && file->output_count == 3 && file->outputs[0].Is("boxes") && file->outputs[1].Is("scores") &&
            file->outputs[2].Is("labels")) ||
           Refuse("the file has other inputs and outputs than image and valid_size, boxes, scores and labels");
  }
  return (inputs == 1 && file->output_count == 1) ||
         Refuse("the file has other inputs and outputs than image and scores");
}

struct Entry {
  Span key, value;
};

bool ReadEntry(Span message, Entry* entry) {
  *entry = {};
  return ForEachField(message, [&](const Fields& field) {
    return field.number == 1 ? field.Take(&entry->key) : field.number != 2 || field.Take(&entry->value);
  });
}

bool ReadOpset(Span message, int64_t* standard, int64_t* ours) {
  Span domain = {};
  int64_t version = 0;
  const bool read = ForEachField(message, [&](const Fields& field) {
    return field.number == 1 ? field.Take(&domain) : field.number != 2 || field.Take(&version);
  });
  if (!read) return false;
  if (domain.Is("")) *standard = version;
  if (domain.Is("rebnn")) *ours = version;
  return true;
}

// Of a list in JSON.
int64_t CountTexts(Span list) {
  int64_t quotes = 0;
  for (size_t i = 0; i < list.size; ++i) {
    if (list.data[i] == '\\') {
      ++i;
    } else {
      quotes += list.data[i] == '"';
    }
  }
  return quotes / 2;
}

bool ReadModel(Span data, OnnxFile* file) {
  Span graph = {}, format = {}, task = {}, sign = {}, seal = {};
  size_t sealed = 0;
  bool seal_is_last = false;
  int64_t standard = 0, ours = 1;
  const bool read = ForEachField(data, [&](const Fields& field) {
    Span content;
    Entry entry;
    switch (field.number) {
      case 7:
        if (graph.data) return Refuse("the file has two graphs");
        return field.Take(&graph);
      case 8:
        return field.Take(&content) && ReadOpset(content, &standard, &ours);
      case 14:
        if (!field.Take(&content) || !ReadEntry(content, &entry)) return false;
        if (entry.key.Is("rebnn.format")) format = entry.value;
        if (entry.key.Is("rebnn.task")) task = entry.value;
        if (entry.key.Is("rebnn.sign")) sign = entry.value;
        if (entry.key.Is("rebnn.classes")) file->classes = CountTexts(entry.value);
        if (entry.key.Is("rebnn.real_layout")) file->blocked = entry.value.Is("blocked");
        if (entry.key.Is("rebnn.file_sha256")) {
          seal = entry.value;
          sealed = static_cast<size_t>(field.start - data.data);
          seal_is_last = field.AtEnd();
        }
        return true;
      default:
        return field.number <= 6 || field.number == 25 || Refuse("the file has a field that no packed model has");
    }
  });
  if (!read) return false;
  if (!format.Is("1")) return Refuse("the file is not a packed model of format 1; write one with rebnn export");
  if (!seal_is_last || seal.size != 64) {
    return Refuse("the file is damaged, or was changed after it was written: its last entry is not rebnn.file_sha256");
  }
  char digits[64];
  Sha256(data.data, sealed, digits);
  if (std::memcmp(digits, seal.data, 64) != 0) {
    return Refuse("the file is damaged: its SHA-256 is not that of rebnn.file_sha256");
  }
  file->is_detector = task.Is("detection");
  if (!file->is_detector && !task.Is("classification")) {
    return Refuse("the file is neither a classifier nor a detector; run it with ONNX Runtime");
  }
  if (!sign.Is("negative is bit 1")) return Refuse("the file's rebnn.sign is not 'negative is bit 1'");
  if (standard < 18 || ours != 1) return Refuse("the file is of another opset than 18 or later, and 1 of ours");
  return ReadGraph(graph, file);
}

}  // namespace

bool Span::Is(const char* text) const { return size == std::strlen(text) && (!size || !std::memcmp(data, text, size)); }

bool Span::operator==(const Span& other) const {
  return size == other.size && (!size || !std::memcmp(data, other.data, size));
}

bool Attributes::Find(const char* name, int64_t type, Span* attribute) const {
  *attribute = {};
  return ForEachField(node, [&](const Fields& field) {
    if (field.number != 5) return true;
    Span content, key = {};
    int64_t actual = 0;
    const bool looked_at = field.Take(&content) && ForEachField(content, [&](const Fields& part) {
      return part.number == 1 ? part.Take(&key) : part.number != 20 || part.Take(&actual);
    });
    if (!looked_at || !key.Is(name)) return looked_at;
    if (attribute->data || actual != type) {
      Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_load: an attribute %s is there twice or of the wrong type.", name);
      return false;
    }
    *attribute = content;
    return true;
  });
}

bool Attributes::Int(const char* name, int64_t fallback, int64_t* value) const {
  Span attribute;
  *value = fallback;
  return Find(name, kIntAttribute, &attribute) &&
         ForEachField(attribute, [&](const Fields& field) { return field.number != 3 || field.Take(value); });
}

bool Attributes::Real(const char* name, float fallback, float* value) const {
  Span attribute;
  *value = fallback;
  return Find(name, kRealAttribute, &attribute) && ForEachField(attribute, [&](const Fields& field) {
    if (field.number != 2) return true;
    if (field.wire != kFixed32) return RefuseDamage();
    std::memcpy(value, field.content.data, sizeof *value);
    return true;
  });
}

bool Attributes::Ints(const char* name, int count, int64_t fallback, int64_t* values) const {
  Span attribute;
  for (int i = 0; i < count; ++i) values[i] = fallback;
  if (!Find(name, kIntsAttribute, &attribute)) return false;
  if (!attribute.data) return true;
  int read = 0;
  const bool whole = ForEachField(attribute, [&](const Fields& field) {
    if (field.number != 8) return true;
    int64_t value;
    if (!field.Take(&value)) return false;
    if (read < count) values[read] = value;
    ++read;
    return true;
  });
  if (!whole || read == count) return whole;
  Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_load: an attribute %s must be a list of %d integers.", name, count);
  return false;
}

bool Attributes::Text(const char* name, const char* fallback, Span* value) const {
  Span attribute;
  *value = {reinterpret_cast<const uint8_t*>(fallback), std::strlen(fallback)};
  return Find(name, kTextAttribute, &attribute) &&
         ForEachField(attribute, [&](const Fields& field) { return field.number != 4 || field.Take(value); });
}

bool Attributes::Tensor(const char* name, Constant* value) const {
  Span attribute, tensor = {};
  return Find(name, kTensorAttribute, &attribute) && attribute.data &&
         ForEachField(attribute, [&](const Fields& field) { return field.number != 5 || field.Take(&tensor); }) &&
         ReadTensor(tensor, nullptr, value);
}

bool Attributes::AreAmong(const char* const* names) const {
  return ForEachField(node, [&](const Fields& field) {
    Span content, key = {};
    if (field.number != 5) return true;
    const bool looked_at = field.Take(&content) && ForEachField(content, [&](const Fields& part) {
      return part.number != 1 || part.Take(&key);
    });
    if (!looked_at) return false;
    for (const char* const* name = names; *name; ++name) {
      if (key.Is(*name)) return true;
    }
    Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_load: a node has an attribute '%.*s' that the exporter does not write.",
         REBNN_TEXT(key));
    return false;
  });
}

rebnn_status ReadFile(Span data, OnnxFile* file) {
  *file = {};
  file->bytes = data.size;
  if (ReadModel(data, file)) return REBNN_OK;
  return file->no_memory ? REBNN_OUT_OF_MEMORY : REBNN_INVALID_ARGUMENT;
}

void FreeFile(OnnxFile* file) {
  std::free(file->nodes);
  std::free(file->constants);
  std::free(file->levels);
}

}  // namespace rebnn
