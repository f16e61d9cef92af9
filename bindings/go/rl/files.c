/* files.c: librl calls these functions, and they call Go, as in hooks.c. */
#include "files.h"

#include "_cgo_export.h"

static void drop(void* user_data) { rlGoDrop((uintptr_t)user_data); }

static int32_t open_file(void* user_data, const char* path, size_t path_len, void** file,
                         uint64_t* size) {
  uintptr_t token = 0;
  const int32_t code = rlGoFileOpen((uintptr_t)user_data, (char*)path, path_len, &token, size);
  *file = (void*)token;
  return code;
}

static int32_t create_file(void* user_data, const char* path, size_t path_len, uint32_t append,
                           void** file) {
  uintptr_t token = 0;
  const int32_t code = rlGoFileCreate((uintptr_t)user_data, (char*)path, path_len, append, &token);
  *file = (void*)token;
  return code;
}

static int32_t read_file(void* user_data, void* file, uint64_t offset, void* data, uint64_t size) {
  return rlGoFileRead((uintptr_t)user_data, (uintptr_t)file, offset, data, size);
}

static int32_t write_file(void* user_data, void* file, const void* data, uint64_t size) {
  return rlGoFileWrite((uintptr_t)user_data, (uintptr_t)file, (void*)data, size);
}

static int32_t sync_file(void* user_data, void* file) {
  return rlGoFileSync((uintptr_t)user_data, (uintptr_t)file);
}

static int32_t close_file(void* user_data, void* file, uint32_t discard) {
  return rlGoFileClose((uintptr_t)user_data, (uintptr_t)file, discard);
}

static int32_t kind_of(void* user_data, const char* path, size_t path_len, int32_t* kind) {
  return rlGoFileKind((uintptr_t)user_data, (char*)path, path_len, kind);
}

static int32_t list(void* user_data, const char* path, size_t path_len, rl_file_found_fn found,
                    void* context) {
  return rlGoFileList((uintptr_t)user_data, (char*)path, path_len, found, context);
}

static int32_t make_directories(void* user_data, const char* path, size_t path_len) {
  return rlGoFileMakeDirectories((uintptr_t)user_data, (char*)path, path_len);
}

static int32_t rename_file(void* user_data, const char* from, size_t from_len, const char* to,
                           size_t to_len) {
  return rlGoFileRename((uintptr_t)user_data, (char*)from, from_len, (char*)to, to_len);
}

static int32_t remove_file(void* user_data, const char* path, size_t path_len) {
  return rlGoFileRemove((uintptr_t)user_data, (char*)path, path_len);
}

static int32_t sync_directory(void* user_data, const char* path, size_t path_len) {
  return rlGoFileSyncDirectory((uintptr_t)user_data, (char*)path, path_len);
}

static void describe(void* user_data, int32_t code, char* text, size_t text_size) {
  (void)code;
  rlGoFileDescribe((uintptr_t)user_data, text, text_size);
}

int32_t rl_go_file_found(rl_file_found_fn found, void* context, const char* name, size_t name_len) {
  return found(context, name, name_len);
}

rl_status rl_go_runtime_create_hosted(const rl_options* options, uintptr_t files,
                                      const char* prefix, size_t prefix_len, rl_runtime** out,
                                      rl_error** err) {
  rl_files table;
  rl_host host;
  rl_files_init(&table, sizeof table);
  rl_host_init(&host, sizeof host);
  table.user_data = (void*)files;
  table.destroy = drop;
  table.prefix = prefix;
  table.prefix_len = prefix_len;
  table.open = open_file;
  table.create = create_file;
  table.read = read_file;
  table.write = write_file;
  table.sync = sync_file;
  table.close = close_file;
  table.kind = kind_of;
  table.list = list;
  table.make_directories = make_directories;
  table.rename = rename_file;
  table.remove = remove_file;
  table.sync_directory = sync_directory;
  table.describe = describe;
  host.files = &table;
  return rl_runtime_create_hosted(RL_ABI_VERSION, options, &host, out, err);
}
