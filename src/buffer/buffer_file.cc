// Writing and reading files, and conversion between a file and an ExperienceBuffer.
#include "buffer/buffer_file.h"

#include <utility>
#include <vector>

#include "buffer/experience_buffer.h"
#include "core/error.h"
#include "core/hash.h"

namespace rl {
namespace {

void require_new(FileSystem& fs, const std::string& path, bool replace_existing) {
  if (replace_existing || !fs.exists(path)) return;
  throw Error(Code::kAlreadyExists, str(path, " already exists")).with_location(path);
}

// Refuses ids and slots outside the file's own info. place is empty for groups of the caller.
void check_limits(const BufferInfo& info, const Group& group, Code code, const std::string& place) {
  const auto refuse = [&](const Sample& s, const char* field, const std::string& what) {
    throw Error(code, str(place, place.empty() ? "" : ": ", sample_name(s), ": ", what))
        .with_key(field)
        .with_location(place);
  };
  for (const SamplePtr& s : group.samples) {
    if (info.group_size > 0 && s->slot >= info.group_size) {
      refuse(*s, "slot", str("slot ", s->slot, " is outside groups of ", info.group_size));
    }
    if (!info.model) continue;
    const auto check_ids = [&](const char* field, const std::vector<int32_t>& ids) {
      for (const int32_t id : ids) {
        if (id < info.model->vocab) continue;
        refuse(*s, field, str("id ", id, " is outside the vocabulary of ", info.model->vocab));
      }
    };
    check_ids("ids", s->ids);
    check_ids("top_ids", s->top_ids);
  }
}

[[noreturn]] void refuse_weights(const std::string& path, const std::string& what) {
  throw Error(Code::kIncompatible, str(path, " ", what)).with_location(path);
}

}  // namespace

BufferFileWriter::BufferFileWriter(FileSystem& fs, const std::string& path, const BufferInfo& info,
                                   const BufferFileRules& rules)
    : fs_(fs),
      info_(info),
      path_(path),
      temporary_(path + ".tmp"),
      replace_existing_(rules.replace_existing) {
  const std::vector<std::byte> document = encode_buffer_info(info_);
  require_new(fs_, path_, replace_existing_);
  file_ = fs_.create(temporary_);
  try {
    frames_ = std::make_unique<FrameWriter>(*file_, rules.compression_level);
    frames_->append(kBufferInfoKind, document);
  } catch (...) {
    discard();
    throw;
  }
}

BufferFileWriter::~BufferFileWriter() { discard(); }

void BufferFileWriter::discard() noexcept {
  if (file_ == nullptr) return;
  file_.reset();
  try {
    fs_.remove_all(temporary_);
  } catch (...) {
    // Report the failure that led here; the next save of this path overwrites the file.
  }
}

void BufferFileWriter::append(const Group& group) {
  RL_CHECK(file_ != nullptr);
  const std::vector<std::byte> document = encode_group(group);
  check_limits(info_, group, Code::kInvalidArgument, "");
  frames_->append(kGroupKind, document);
}

void BufferFileWriter::commit() {
  RL_CHECK(file_ != nullptr);
  frames_->close();
  file_->sync();
  file_->close();
  require_new(fs_, path_, replace_existing_);
  fs_.rename(temporary_, path_);
  file_.reset();
  fs_.sync_directory(parent_directory(path_));
}

namespace {

BufferInfo read_info(FrameReader& frames, const std::string& path) {
  const std::optional<Frame> first = frames.next();
  const std::string place = str(path, " offset ", first ? first->offset : 0);
  if (first && first->kind_text() == kBufferInfoKind) {
    return decode_buffer_info(first->document, place);
  }
  throw Error(Code::kDataLoss, str(place, ": the first frame is not a ", kBufferInfoKind))
      .with_location(place);
}

}  // namespace

BufferFileReader::BufferFileReader(FileSystem& fs, const std::string& path)
    : BufferFileReader(fs.open(path)) {}

BufferFileReader::BufferFileReader(std::unique_ptr<InputFile> file)
    : file_(std::move(file)), frames_(*file_), info_(read_info(frames_, file_->path())) {}

std::optional<Group> BufferFileReader::next() {
  const std::optional<Frame> frame = frames_.next();
  if (!frame) return std::nullopt;
  const std::string place = str(path(), " offset ", frame->offset);
  if (frame->kind_text() != kGroupKind) {
    throw Error(Code::kDataLoss, str(place, ": the frame is not a ", kGroupKind))
        .with_location(place);
  }
  Group group = decode_group(frame->document, place);
  check_limits(info_, group, Code::kDataLoss, place);
  return group;
}

void require_start_weights(const std::string& path, const BufferInfo& info,
                           const ModelIdentity& model) {
  if (!info.model) refuse_weights(path, "does not say which weights training starts from");
  if (info.model->weight_digest != model.weight_digest) {
    refuse_weights(path, str("starts from weights with digest ", hex64(info.model->weight_digest),
                             ", but the model's digest is ", hex64(model.weight_digest)));
  }
  if (info.model->compute_dtype != model.compute_dtype) {
    refuse_weights(path, str("was recorded by a model that computes in ", info.model->compute_dtype,
                             ", but this one computes in ", model.compute_dtype));
  }
}

void save_buffer(FileSystem& fs, const std::string& path, const ExperienceBuffer& buffer,
                 BufferInfo info, const BufferFileRules& rules) {
  info.group_size = buffer.group_size();
  BufferFileWriter writer(fs, path, info, rules);
  buffer.visit([&](const Group& group) { writer.append(group); });
  writer.commit();
}

namespace {

void require_group_size(const BufferFileReader& file, const ExperienceBuffer& buffer) {
  const int64_t size = file.info().group_size;
  if (size == 0 || size == buffer.group_size()) return;
  throw Error(Code::kIncompatible,
              str(file.path(), " has groups of ", size, " samples, but the buffer's groups have ",
                  buffer.group_size()))
      .with_key("pipeline.samples_per_prompt")
      .with_expected(str(size))
      .with_location(file.path());
}

void require_room(const BufferFileReader& file, const ExperienceBuffer& buffer, size_t samples) {
  const int64_t room = buffer.capacity() - buffer.num_samples();
  if (static_cast<int64_t>(samples) <= room) return;
  throw Error(Code::kResourceExhausted, str(file.path(), " has more samples than the ", room,
                                            " that the buffer has room for"))
      .with_location(file.path());
}

}  // namespace

int64_t load_buffer(FileSystem& fs, const std::string& path, ExperienceBuffer& buffer,
                    const ModelIdentity* model) {
  BufferFileReader file(fs, path);
  if (model != nullptr) require_start_weights(path, file.info(), *model);
  require_group_size(file, buffer);
  std::vector<SamplePtr> samples;
  while (std::optional<Group> group = file.next()) {
    for (SamplePtr& s : group->samples) samples.push_back(std::move(s));
    require_room(file, buffer, samples.size());
  }
  const auto count = static_cast<int64_t>(samples.size());
  try {
    buffer.put_all(std::move(samples));
  } catch (Error& error) {
    error.message = str(path, ": ", error.message);
    error.location = path;
    throw;
  }
  return count;
}

}  // namespace rl
