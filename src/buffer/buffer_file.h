// Groups at rest: a file of frames (data/frame.h), a BufferInfo first and then one group each.
// Invariants: a file appears under its name by one rename, complete and synced; memory is that of
// one group, however long the file is.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/fs.h"
#include "data/frame.h"
#include "data/sample_document.h"

namespace rl {

class ExperienceBuffer;

struct BufferFileRules {
  int compression_level = 3;      // buffer.compression_level
  bool replace_existing = false;  // else Error(kAlreadyExists) when the path is there
};

// Writes PATH.tmp; commit() gives it its name. Without commit it is removed at the end. One writer
// of a path at a time.
class BufferFileWriter {
 public:
  BufferFileWriter(FileSystem& fs, const std::string& path, const BufferInfo& info,
                   const BufferFileRules& rules);
  ~BufferFileWriter();
  BufferFileWriter(const BufferFileWriter&) = delete;

  // Errors of encode_group; kInvalidArgument naming sample and limit when an id or a slot is beyond
  // the vocabulary or the group size of the file's own info.
  void append(const Group& group);
  // The file is durable and has its name on return. After an error the path is as it was, except
  // that a failure to sync the directory leaves the new file.
  void commit();

 private:
  void discard() noexcept;

  FileSystem& fs_;
  const BufferInfo info_;
  const std::string path_, temporary_;
  const bool replace_existing_;
  std::unique_ptr<OutputFile> file_;
  std::unique_ptr<FrameWriter> frames_;
};

// Walks a file. Damage in a group is found when it is read; that the file is whole is known once
// next() has returned nullopt, so what may not act on a part of a file walks it twice.
class BufferFileReader {
 public:
  // Reads the file's BufferInfo. Errors: kNotFound, kIo, kDataLoss and kIncompatible naming the
  // file and the offset.
  BufferFileReader(FileSystem& fs, const std::string& path);

  const BufferInfo& info() const { return info_; }
  const std::string& path() const { return file_->path(); }
  // Groups in the order written; nullopt after the last. Ids reach the vocabulary of info().model
  // at most, slots info().group_size; else Error(kDataLoss).
  std::optional<Group> next();

 private:
  std::unique_ptr<InputFile> file_;
  FrameReader frames_;
  BufferInfo info_;
};

// Error(kIncompatible) naming both digests (or compute dtypes) unless the file says that training
// on it starts from these weights.
void require_start_weights(const std::string& path, const BufferInfo& info,
                           const ModelIdentity& model);

// Every sample of the buffer, group by group; calls of other threads on the buffer wait meanwhile.
void save_buffer(FileSystem& fs, const std::string& path, const ExperienceBuffer& buffer,
                 BufferInfo info, const BufferFileRules& rules);

// Adds every sample of the file to the buffer, or after an error none. model: what the weights must
// be (require_start_weights), null when that does not matter. Returns the number of samples.
// Errors: those of the reader and of ExperienceBuffer::put, naming the path; kIncompatible when the
// groups of the file are of another size; kResourceExhausted as soon as the samples read do not
// fit.
int64_t load_buffer(FileSystem& fs, const std::string& path, ExperienceBuffer& buffer,
                    const ModelIdentity* model);

}  // namespace rl
