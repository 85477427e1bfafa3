/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to token ids and back. Works without a model.
 */
#ifndef COLIBRI_TOKENIZER_H
#define COLIBRI_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "colibri/export.h"
#include "colibri/model.h"
#include "colibri/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An immutable tokenizer. */
typedef struct colibri_tokenizer colibri_tokenizer;

/** Decodes a stream of ids into whole characters; state of one stream. */
typedef struct colibri_stream_decoder colibri_stream_decoder;

/** What encoding does with text that spells a control token such as "<|user|>". */
#define COLIBRI_CONTROL_PLAIN 0   /**< no added token but white space: right for text of users */
#define COLIBRI_CONTROL_ALLOWED 1 /**< it becomes the control token */

/**
 * Opens a tokenizer.json, or the one in a folder.
 *
 * @param path       UTF-8.
 * @param tokenizer  [out] NULL on failure.
 *
 * Ownership  The caller closes it.
 * Threads    Any.
 * Errors     COLIBRI_E_ARGUMENT, COLIBRI_E_NOT_FOUND, COLIBRI_E_IO, COLIBRI_E_FORMAT,
 *            COLIBRI_E_UNSUPPORTED (a part of the file that this version does not know, by name),
 *            COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_tokenizer_open(const char *path, colibri_tokenizer **tokenizer,
                                                  colibri_error *error);

/**
 * Closes a tokenizer; NULL is allowed.
 *
 * Threads    No other call on it may be running.
 * Errors     COLIBRI_E_BUSY    stream decoders of it still exist, a call is running, or it belongs
 *                              to a model.
 *            COLIBRI_E_HANDLE  not a tokenizer.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_tokenizer_close(colibri_tokenizer *tokenizer,
                                                   colibri_error *error);

/**
 * The tokenizer that a model loaded with its snapshot.
 *
 * @return NULL if the model has none or is no model. Belongs to the model; valid until it is
 * closed.
 *
 * Threads    Any.
 * Since      0.1
 */
COLIBRI_API const colibri_tokenizer *colibri_model_tokenizer(const colibri_model *model);

/**
 * Largest token id + 1; 0 for NULL and for what is no tokenizer.
 *
 * Threads    Any.
 * Since      0.1
 */
COLIBRI_API uint32_t colibri_tokenizer_size(const colibri_tokenizer *tokenizer);

/**
 * Text to ids. No prefix tokens are added. Invalid UTF-8 is read as U+FFFD.
 *
 * @param text        text_bytes bytes, need not end in NUL; NULL only with text_bytes 0.
 * @param text_bytes  At most 2^30.
 * @param control     COLIBRI_CONTROL_*.
 * @param ids         [out] NULL with capacity 0 only asks for the count.
 * @param capacity    Elements of ids.
 * @param n_ids       [out] Count, also when the buffer is too small.
 *
 * Threads    Any.
 * Errors     COLIBRI_E_FORMAT  a split pattern of the file takes more effort on this text than any
 *                              sound pattern does.
 *            COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT, COLIBRI_E_CAPACITY, COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_tokenizer_encode(const colibri_tokenizer *tokenizer,
                                                    const char *text, size_t text_bytes,
                                                    int32_t control, int32_t *ids, size_t capacity,
                                                    size_t *n_ids, colibri_error *error);

/**
 * Ids to text. Unknown ids give nothing; incomplete characters give U+FFFD.
 *
 * @param ids           n_ids ids.
 * @param skip_special  1 leaves out tokens marked special; 0 keeps them.
 * @param text          [out] UTF-8 and a NUL; NULL with capacity 0 only asks for the length.
 * @param capacity      Bytes of text.
 * @param text_bytes    [out] Length without NUL, also when the buffer is too small.
 *
 * Threads    Any.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT, COLIBRI_E_CAPACITY, COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_tokenizer_decode(const colibri_tokenizer *tokenizer,
                                                    const int32_t *ids, size_t n_ids,
                                                    int32_t skip_special, char *text,
                                                    size_t capacity, size_t *text_bytes,
                                                    colibri_error *error);

/**
 * Id of a token by its exact text, control tokens included.
 *
 * @param token  NUL-terminated.
 * @param id     [out]
 *
 * Threads    Any.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT, COLIBRI_E_NOT_FOUND.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_tokenizer_find(const colibri_tokenizer *tokenizer,
                                                  const char *token, int32_t *id,
                                                  colibri_error *error);

/**
 * Ids that a text begins with: those of the file's post-processor (BOS), else [gMASK]<sop> if the
 * tokenizer has both, because GLM models know no other beginning, else none.
 * colibri_tokenizer_encode() does not add them; colibri_chat_encode() writes what its layout says.
 *
 * @param ids       [out] NULL with capacity 0 only asks for the count.
 * @param capacity  Elements of ids.
 * @param n_ids     [out] Count, also when the buffer is too small.
 *
 * Threads    Any.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT, COLIBRI_E_CAPACITY.
 * Since      0.2
 */
COLIBRI_API colibri_status colibri_tokenizer_prefix(const colibri_tokenizer *tokenizer,
                                                    int32_t *ids, size_t capacity, size_t *n_ids,
                                                    colibri_error *error);

/** Who speaks in a chat. */
#define COLIBRI_ROLE_SYSTEM 0
#define COLIBRI_ROLE_USER 1
#define COLIBRI_ROLE_ASSISTANT 2
#define COLIBRI_ROLE_TOOL 3

/** One message of a chat. */
typedef struct colibri_chat_message {
  uint32_t struct_size; /**< set by the caller, the same in all messages of one call */
  int32_t role;         /**< COLIBRI_ROLE_* */
  const char *text;     /**< UTF-8, NUL-terminated */
} colibri_chat_message;

/** Flags of colibri_chat_encode(). */
#define COLIBRI_CHAT_NO_GENERATION_PROMPT 1u /**< do not open the assistant's turn at the end */
#define COLIBRI_CHAT_THINKING 2u             /**< let the assistant think first, if it can */

/**
 * The chat layout of a tokenizer. Layouts are built in. The text of the chat template beside the
 * tokenizer.json (chat_template.jinja, or tokenizer_config.json) and the vocabulary tell which one
 * it is; the template is never executed. Without a template, vocabularies that no other layout has
 * are recognised.
 *
 * @param name  [out] A constant such as "glm-4.7", "qwen3", "deepseek-v3", "mistral-v1"; valid for
 *              ever. The list is in docs/cli.md.
 *
 * Threads    Any.
 * Errors     COLIBRI_E_UNSUPPORTED  the template is none that this version knows, or the tokenizer
 *                                   lacks a token of the layout: it is named.
 *            COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT, COLIBRI_E_MEMORY.
 * Since      0.2
 */
COLIBRI_API colibri_status colibri_chat_layout(const colibri_tokenizer *tokenizer,
                                               const char **name, colibri_error *error);

/**
 * A conversation to ids in the layout of colibri_chat_layout(), control tokens and prompt prefix
 * included. Texts are plain whatever they spell: they cannot open or close a turn. Only an answer
 * of the assistant may hold tokens that are not special, such as those of a tool call, and its
 * <think> part is left out or written as the layout says.
 *
 * @param messages    n_messages structs, at most 65536; NULL only with n_messages 0.
 * @param flags       COLIBRI_CHAT_* combined, or 0.
 * @param ids         [out] NULL with capacity 0 only asks for the count.
 * @param capacity    Elements of ids.
 * @param n_ids       [out] Count, also when the buffer is too small.
 *
 * Threads    Any.
 * Errors     COLIBRI_E_UNSUPPORTED  as colibri_chat_layout().
 *            COLIBRI_E_ARGUMENT     also: a message that the layout has no place for, by number (a
 *                                   role that it lacks, turns that do not alternate).
 *            COLIBRI_E_FORMAT       as colibri_tokenizer_encode().
 *            COLIBRI_E_HANDLE, COLIBRI_E_CAPACITY, COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_chat_encode(const colibri_tokenizer *tokenizer,
                                               const colibri_chat_message *messages,
                                               size_t n_messages, uint32_t flags, int32_t *ids,
                                               size_t capacity, size_t *n_ids,
                                               colibri_error *error);

/**
 * Begins a stream.
 *
 * @param skip_special  As colibri_tokenizer_decode().
 * @param decoder       [out] NULL on failure.
 *
 * Ownership  The caller destroys it, before the tokenizer is closed.
 * Threads    Any.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT, COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_stream_decoder_create(const colibri_tokenizer *tokenizer,
                                                         int32_t skip_special,
                                                         colibri_stream_decoder **decoder,
                                                         colibri_error *error);

/**
 * Adds one id and gives the characters that it completes.
 *
 * @param text        [out] Not NUL-terminated; valid until the next call on the decoder.
 * @param text_bytes  [out] May be 0.
 *
 * Threads    One call at a time.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT, COLIBRI_E_BUSY, COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_stream_decoder_push(colibri_stream_decoder *decoder, int32_t id,
                                                       const char **text, size_t *text_bytes,
                                                       colibri_error *error);

/**
 * Gives what is held back (an incomplete character as U+FFFD) and returns to the start of a stream.
 *
 * Parameters, threads and errors as colibri_stream_decoder_push().
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_stream_decoder_flush(colibri_stream_decoder *decoder,
                                                        const char **text, size_t *text_bytes,
                                                        colibri_error *error);

/**
 * Frees a decoder; NULL is allowed. What it holds back is lost.
 *
 * Threads    No other call on it may be running.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_BUSY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_stream_decoder_destroy(colibri_stream_decoder *decoder,
                                                          colibri_error *error);

#ifdef __cplusplus
}
#endif

#endif /* COLIBRI_TOKENIZER_H */
