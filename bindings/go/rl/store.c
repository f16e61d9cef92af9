/* store.c: librl calls these functions, and they call Go, as in hooks.c. */
#include "store.h"

#include "_cgo_export.h"

static void drop(void* user_data) { rlGoDrop((uintptr_t)user_data); }

static int32_t put(void* user_data, const char* name, size_t name_len, const void* data,
                   uint64_t size) {
  return rlGoStorePut((uintptr_t)user_data, (char*)name, name_len, (void*)data, size);
}

static int32_t claim(void* user_data, uint64_t max_groups, rl_store_found_fn found, void* context) {
  return rlGoStoreClaim((uintptr_t)user_data, max_groups, found, context);
}

static int32_t recover(void* user_data) { return rlGoStoreRecover((uintptr_t)user_data); }

static int32_t acknowledge(void* user_data, const char* token, size_t token_len) {
  return rlGoStoreAcknowledge((uintptr_t)user_data, (char*)token, token_len);
}

static int32_t set_aside(void* user_data, const char* token, size_t token_len) {
  return rlGoStoreSetAside((uintptr_t)user_data, (char*)token, token_len);
}

static int32_t read_book(void* user_data, rl_store_found_fn found, void* context) {
  return rlGoStoreReadBook((uintptr_t)user_data, found, context);
}

static int32_t write_book(void* user_data, const void* data, uint64_t size) {
  return rlGoStoreWriteBook((uintptr_t)user_data, (void*)data, size);
}

static void describe(void* user_data, int32_t code, char* text, size_t text_size) {
  (void)code;
  rlGoStoreDescribe((uintptr_t)user_data, text, text_size);
}

int32_t rl_go_store_found(rl_store_found_fn found, void* context, const char* token,
                          size_t token_len, const void* data, uint64_t size) {
  return found(context, token, token_len, data, size);
}

static rl_store table_of(uintptr_t store) {
  rl_store table;
  rl_store_init(&table, sizeof table);
  table.user_data = (void*)store;
  table.destroy = drop;
  table.put = put;
  table.claim = claim;
  table.recover = recover;
  table.acknowledge = acknowledge;
  table.set_aside = set_aside;
  table.read_book = read_book;
  table.write_book = write_book;
  table.describe = describe;
  return table;
}

rl_status rl_go_buffer_create_stored(const rl_options* options, uint64_t max_samples,
                                     uintptr_t store, rl_buffer** out, rl_error** err) {
  const rl_store table = table_of(store);
  return rl_buffer_create_stored(options, max_samples, &table, out, err);
}

rl_status rl_go_pipeline_create_stored(rl_model* model, const rl_options* options, uintptr_t store,
                                       rl_pipeline** out, rl_error** err) {
  const rl_store table = table_of(store);
  return rl_pipeline_create_stored(model, options, &table, out, err);
}
