// Files of groups: a sequence of frames (data/frame.h), first a BufferInfo and then one group
// each. Invariants: a file appears under its name by one rename, complete and synced; memory is
// that of one group, however long the file is.
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
  bool replace_existing = false;  // false: Error(kAlreadyExists) if the path exists
};

// Writes PATH.tmp; commit() renames it. Without commit the destructor removes it. One writer per
// path at a time.
class BufferFileWriter {
 public:
  BufferFileWriter(FileSystem& fs, const std::string& path, const BufferInfo& info,
                   const BufferFileRules& rules);
  ~BufferFileWriter();
  BufferFileWriter(const BufferFileWriter&) = delete;

  // Errors of encode_group; kInvalidArgument naming sample and limit if an id or a slot exceeds
  // the vocabulary or the group size of the file's own info.
  void append(const Group& group);
  // On return the file is durable under its name. After an error the path is unchanged, except
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

// Iterates over a file. Damage in a group is found when it is read; only when next() has returned
// nullopt is the whole file known to be intact, so code that must not act on a partial file
// iterates twice.
class BufferFileReader {
 public:
  // Reads the file's BufferInfo. Errors: kNotFound, kIo, kDataLoss and kIncompatible naming the
  // file and the offset.
  BufferFileReader(FileSystem& fs, const std::string& path);
  explicit BufferFileReader(std::unique_ptr<InputFile> file);

  const BufferInfo& info() const { return info_; }
  const std::string& path() const { return file_->path(); }
  // Groups in the order written; nullopt after the last. Ids are within the vocabulary of
  // info().model and slots below info().group_size, else Error(kDataLoss).
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

// Writes every sample of the buffer, group by group; other threads' calls on the buffer wait
// meanwhile.
void save_buffer(FileSystem& fs, const std::string& path, const ExperienceBuffer& buffer,
                 BufferInfo info, const BufferFileRules& rules);

// Adds every sample of the file to the buffer or, after an error, none. model: the weights that
// the file must be for (require_start_weights), or null to skip the check. Returns the number of
// samples. Errors: those of the reader and of ExperienceBuffer::put, naming the path;
// kIncompatible if the file's group size differs; kResourceExhausted as soon as the samples read
// do not fit.
int64_t load_buffer(FileSystem& fs, const std::string& path, ExperienceBuffer& buffer,
                    const ModelIdentity* model);

}  // namespace rl
