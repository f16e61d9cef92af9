/* A store of groups on a stream of Redis: for rl_buffer_create_stored, so that processes on several
 * machines sample and one trains. */
#ifndef REDIS_STORE_H
#define REDIS_STORE_H
#include "rl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Connects to a server, "HOST:PORT" or the path of its socket, and fills in *store: groups are
 * entries of the stream `key`, the book is the string KEY:book, and groups that cannot be read go
 * to the stream KEY:damaged. The result is NULL, or says why there is no store, until the next
 * call; one call at a time. librl ends user_data. */
const char* redis_store_open(const char* address, const char* key, rl_store* store);

#ifdef __cplusplus
}
#endif
#endif
