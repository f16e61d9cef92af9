/* A store of librl on Redis Streams. XADD puts a group, XREADGROUP claims it for the consumer
 * "trainer", XACK and XDEL acknowledge it. What was claimed and not acknowledged stays pending in
 * Redis: after `recover` it is read first, from the beginning.
 *
 *   cc -c redis_store.c $(pkg-config --cflags rl hiredis)
 *
 * The server must keep what it was given: "appendonly yes" and "appendfsync always", and no
 * eviction. */
#include "redis_store.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, FAILED = 1, TEXT = 200, NAME = 160 };
static const char GROUP[] = "trainers";
static const char CONSUMER[] = "trainer";

typedef struct redis_store {
  pthread_mutex_t mutex; /* librl calls on several threads, and a context serves one */
  redisContext* redis;
  char key[NAME], book[NAME + 8], damaged[NAME + 8];
  int pending;    /* read what is pending before new entries */
  char from[64];  /* the last pending entry that was read */
  char why[TEXT]; /* of the last failure */
} redis_store;

/* ---- commands ---- */

static int fail(redis_store* s, const char* why) {
  snprintf(s->why, sizeof s->why, "%s", why);
  return FAILED;
}

/* The reply of a command, or NULL; after a lost connection the next command makes a new one. */
static redisReply* run(redis_store* s, int count, const char** words, const size_t* sizes) {
  redisReply* reply;
  if (s->redis->err != 0 && redisReconnect(s->redis) != REDIS_OK) {
    fail(s, s->redis->errstr);
    return NULL;
  }
  reply = redisCommandArgv(s->redis, count, words, sizes);
  if (reply == NULL) {
    fail(s, s->redis->errstr);
  } else if (reply->type == REDIS_REPLY_ERROR) {
    fail(s, reply->str);
    freeReplyObject(reply);
    reply = NULL;
  }
  return reply;
}

/* A command of texts whose reply does not matter; the last argument is NULL. */
static int tell(redis_store* s, const char* const* texts) {
  const char* words[8];
  size_t sizes[8];
  int count = 0;
  redisReply* reply;
  for (; texts[count] != NULL; ++count) {
    words[count] = texts[count];
    sizes[count] = strlen(texts[count]);
  }
  reply = run(s, count, words, sizes);
  if (reply == NULL) return FAILED;
  freeReplyObject(reply);
  return OK;
}

/* XADD stream * name NAME data BYTES */
static int append(redis_store* s, const char* stream, const char* name, size_t name_len,
                  const void* data, size_t size) {
  const char* words[] = {"XADD", stream, "*", "name", name, "data", data};
  const size_t sizes[] = {4, strlen(stream), 1, 4, name_len, 4, size};
  redisReply* const reply = run(s, 7, words, sizes);
  if (reply == NULL) return FAILED;
  freeReplyObject(reply);
  return OK;
}

/* The field of an entry, [id, [field, value, ...]]; NULL if the entry was deleted. */
static const redisReply* field_of(const redisReply* entry, const char* field) {
  const redisReply* fields;
  size_t i;
  if (entry->type != REDIS_REPLY_ARRAY || entry->elements != 2) return NULL;
  fields = entry->element[1];
  if (fields->type != REDIS_REPLY_ARRAY) return NULL;
  for (i = 0; i + 1 < fields->elements; i += 2) {
    if (strcmp(fields->element[i]->str, field) == 0) return fields->element[i + 1];
  }
  return NULL;
}

static int forget(redis_store* s, const char* id) {
  const char* const acknowledge[] = {"XACK", s->key, GROUP, id, NULL};
  const char* const delete_it[] = {"XDEL", s->key, id, NULL};
  return tell(s, acknowledge) == OK ? tell(s, delete_it) : FAILED;
}

/* ---- the functions of the store ---- */

static int32_t put(void* user_data, const char* name, size_t name_len, const void* data,
                   uint64_t size) {
  redis_store* const s = user_data;
  int code;
  pthread_mutex_lock(&s->mutex);
  code = append(s, s->key, name, name_len, data, (size_t)size);
  pthread_mutex_unlock(&s->mutex);
  return code;
}

/* Gives librl the entries of a reply, [[stream, [entry, ...]]], and counts them. */
static int give(redis_store* s, const redisReply* reply, rl_store_found_fn found, void* context,
                uint64_t* count) {
  const redisReply* entries;
  size_t i;
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1) return OK; /* none */
  entries = reply->element[0]->element[1];
  for (i = 0; i < entries->elements; ++i) {
    const redisReply* const entry = entries->element[i];
    const redisReply* const data = field_of(entry, "data");
    const char* const id = entry->element[0]->str;
    int code;
    snprintf(s->from, sizeof s->from, "%s", id);
    ++*count;
    code = data == NULL ? forget(s, id) : found(context, id, strlen(id), data->str, data->len);
    if (code != OK) return code;
  }
  return OK;
}

/* Pending entries until there are no more, then new ones. */
static int read_entries(redis_store* s, uint64_t max_groups, rl_store_found_fn found,
                        void* context) {
  uint64_t count = 0;
  for (;;) {
    char most[24];
    const char* words[] = {"XREADGROUP", "GROUP", GROUP,
                           CONSUMER,     "COUNT", most,
                           "STREAMS",    s->key,  s->pending ? s->from : ">"};
    const int was_pending = s->pending;
    size_t sizes[9], i;
    uint64_t read = 0;
    redisReply* reply;
    int code;
    snprintf(most, sizeof most, "%llu", (unsigned long long)(max_groups - count));
    for (i = 0; i < 9; ++i) sizes[i] = strlen(words[i]);
    reply = run(s, 9, words, sizes);
    if (reply == NULL) return FAILED;
    code = give(s, reply, found, context, &read);
    freeReplyObject(reply);
    if (code != OK) return code;
    if (was_pending && read == 0) s->pending = 0;
    count += read;
    if (count >= max_groups || (!was_pending && read == 0)) return OK;
  }
}

static int32_t claim(void* user_data, uint64_t max_groups, rl_store_found_fn found, void* context) {
  redis_store* const s = user_data;
  int code;
  pthread_mutex_lock(&s->mutex);
  code = read_entries(s, max_groups, found, context);
  pthread_mutex_unlock(&s->mutex);
  return code;
}

static int32_t recover(void* user_data) {
  redis_store* const s = user_data;
  pthread_mutex_lock(&s->mutex);
  s->pending = 1;
  snprintf(s->from, sizeof s->from, "0");
  pthread_mutex_unlock(&s->mutex);
  return OK;
}

static int32_t acknowledge(void* user_data, const char* token, size_t token_len) {
  redis_store* const s = user_data;
  int code;
  (void)token_len; /* ids have no NUL */
  pthread_mutex_lock(&s->mutex);
  code = forget(s, token);
  pthread_mutex_unlock(&s->mutex);
  return code;
}

static int32_t set_aside(void* user_data, const char* token, size_t token_len) {
  redis_store* const s = user_data;
  const char* words[] = {"XRANGE", s->key, token, token};
  const size_t sizes[] = {6, strlen(s->key), token_len, token_len};
  redisReply* reply;
  int code = OK;
  pthread_mutex_lock(&s->mutex);
  reply = run(s, 4, words, sizes);
  if (reply == NULL) {
    code = FAILED;
  } else if (reply->elements == 1) {
    const redisReply* const name = field_of(reply->element[0], "name");
    const redisReply* const data = field_of(reply->element[0], "data");
    if (name != NULL && data != NULL) {
      code = append(s, s->damaged, name->str, name->len, data->str, data->len);
    }
  }
  if (reply != NULL) freeReplyObject(reply);
  if (code == OK) code = forget(s, token);
  pthread_mutex_unlock(&s->mutex);
  return code;
}

static int32_t read_book(void* user_data, rl_store_found_fn found, void* context) {
  redis_store* const s = user_data;
  const char* words[] = {"GET", s->book};
  const size_t sizes[] = {3, strlen(s->book)};
  redisReply* reply;
  int code = FAILED;
  pthread_mutex_lock(&s->mutex);
  reply = run(s, 2, words, sizes);
  if (reply != NULL) {
    code = reply->type == REDIS_REPLY_STRING ? found(context, NULL, 0, reply->str, reply->len) : OK;
    freeReplyObject(reply);
  }
  pthread_mutex_unlock(&s->mutex);
  return code;
}

static int32_t write_book(void* user_data, const void* data, uint64_t size) {
  redis_store* const s = user_data;
  const char* words[] = {"SET", s->book, data};
  const size_t sizes[] = {3, strlen(s->book), (size_t)size};
  redisReply* reply;
  pthread_mutex_lock(&s->mutex);
  reply = run(s, 3, words, sizes);
  pthread_mutex_unlock(&s->mutex);
  if (reply == NULL) return FAILED;
  freeReplyObject(reply);
  return OK;
}

static void describe(void* user_data, int32_t code, char* text, size_t text_size) {
  redis_store* const s = user_data;
  (void)code;
  pthread_mutex_lock(&s->mutex);
  snprintf(text, text_size, "Redis: %s", s->why);
  pthread_mutex_unlock(&s->mutex);
}

static void destroy(void* user_data) {
  redis_store* const s = user_data;
  redisFree(s->redis);
  pthread_mutex_destroy(&s->mutex);
  free(s);
}

/* ---- opening ---- */

static redisContext* connect_to(const char* address) {
  const char* const colon = strrchr(address, ':');
  char host[256];
  if (address[0] == '/' || colon == NULL) return redisConnectUnix(address);
  if ((size_t)(colon - address) >= sizeof host) return NULL;
  memcpy(host, address, (size_t)(colon - address));
  host[colon - address] = '\0';
  return redisConnect(host, atoi(colon + 1));
}

/* The consumer group, which exists from the first opening on. */
static int make_group(redis_store* s) {
  const char* const words[] = {"XGROUP", "CREATE", s->key, GROUP, "0", "MKSTREAM", NULL};
  return tell(s, words) == OK || strncmp(s->why, "BUSYGROUP", 9) == 0 ? OK : FAILED;
}

const char* redis_store_open(const char* address, const char* key, rl_store* store) {
  static char why[TEXT];
  redis_store* s;
  if (address == NULL || strlen(key) >= NAME) return "there is no address, or the key is too long";
  s = calloc(1, sizeof *s);
  if (s == NULL) return "no memory";
  snprintf(s->key, sizeof s->key, "%s", key);
  snprintf(s->book, sizeof s->book, "%s:book", key);
  snprintf(s->damaged, sizeof s->damaged, "%s:damaged", key);
  pthread_mutex_init(&s->mutex, NULL);
  s->redis = connect_to(address);
  if (s->redis == NULL || s->redis->err != 0 || make_group(s) != OK) {
    const char* const text = s->redis == NULL ? "no connection" : s->redis->errstr;
    snprintf(why, sizeof why, "%s", s->why[0] != '\0' ? s->why : text);
    if (s->redis != NULL) redisFree(s->redis);
    pthread_mutex_destroy(&s->mutex);
    free(s);
    return why;
  }
  rl_store_init(store, sizeof *store);
  store->user_data = s;
  store->destroy = destroy;
  store->put = put;
  store->claim = claim;
  store->recover = recover;
  store->acknowledge = acknowledge;
  store->set_aside = set_aside;
  store->read_book = read_book;
  store->write_book = write_book;
  store->describe = describe;
  return NULL;
}
