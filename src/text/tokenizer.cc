// The encode pipeline: added tokens are matched, the rest is normalised, added tokens that match
// normalised text are matched, the rest is split into words, and each word goes through BPE.
#include "text/tokenizer.h"

#include "core/encoding/unicode.h"
#include "core/error.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace rl {
namespace {

constexpr uint64_t kMaxJsonBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxConfigBytes = uint64_t{64} << 20;
constexpr size_t kMaxTextBytes = size_t{1} << 30;

enum TokenFlag : uint8_t { kSpecial = 1, kContext = 2 };

std::vector<AddedToken> select(const TokenizerSpec& spec, bool normalized) {
  std::vector<AddedToken> out;
  for (const AddedToken& token : spec.added) {
    if (token.normalized != normalized) continue;
    out.push_back(token);
    if (normalized && spec.nfc) out.back().text = to_nfc(token.text);
  }
  return out;
}

// The post-processor's reader does not know the vocabulary, so its ids are checked here.
void check_ids(const std::vector<int32_t>& ids, const Vocabulary& vocabulary,
               const std::string& source) {
  for (const int32_t id : ids) {
    if (vocabulary.contains(id)) continue;
    throw Error(Code::kDataLoss, str(source, ": the post-processor adds id ", id,
                                     ", which is not in the vocabulary"));
  }
}

}  // namespace

struct Tokenizer::State {
  explicit State(const TokenizerSpec& spec)
      : vocabulary(spec.tokens, spec.source),
        bpe(vocabulary, spec),
        raw_tokens(select(spec, false)),
        normalized_tokens(select(spec, true)),
        pre_tokenizer(spec.pre_tokenizer),
        nfc(spec.nfc),
        add_prefix_space(spec.add_prefix_space),
        prefix_ids(spec.prefix_ids),
        suffix_ids(spec.suffix_ids),
        bos_id(spec.bos_id),
        eos_id(spec.eos_id),
        pad_id(spec.pad_id),
        flags(spec.tokens.size(), 0) {
    check_ids(prefix_ids, vocabulary, spec.source);
    check_ids(suffix_ids, vocabulary, spec.source);
    for (const AddedToken& token : spec.added) {
      auto& flag = flags[static_cast<size_t>(token.id)];
      if (token.special) flag |= kSpecial;
      if (token.lstrip || token.rstrip || token.single_word) flag |= kContext;
    }
  }

  void encode_words(std::string_view piece, BpeScratch& scratch, EncodeResult& out) const {
    std::string with_space;
    if (add_prefix_space && !piece.starts_with(' ')) {
      with_space = str(" ", piece);
      piece = with_space;
    }
    pre_tokenizer.split(piece, [&](std::string_view word) {
      out.num_unmapped_bytes += bpe.encode(word, scratch, out.ids);
    });
  }

  Vocabulary vocabulary;
  Bpe bpe;
  AddedTokenMatcher raw_tokens;
  AddedTokenMatcher normalized_tokens;
  PreTokenizer pre_tokenizer;
  bool nfc;
  bool add_prefix_space;
  std::vector<int32_t> prefix_ids;
  std::vector<int32_t> suffix_ids;
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::optional<int32_t> pad_id;
  std::vector<uint8_t> flags;  // TokenFlag by id
};

Tokenizer Tokenizer::from_json(FileSystem& fs, const std::string& path) {
  return from_json_text(read_text_file(fs, path, kMaxJsonBytes), path);
}

Tokenizer Tokenizer::from_json_text(const std::string& json, const std::string& source) {
  return Tokenizer(std::make_shared<State>(read_tokenizer_json(json, source)));
}

Tokenizer Tokenizer::from_parts(TokenizerParts parts) {
  return Tokenizer(std::make_shared<State>(read_tokenizer_parts(std::move(parts))));
}

Tokenizer Tokenizer::from_directory(FileSystem& fs, const std::string& dir) {
  const std::string path = dir + "/tokenizer.json";
  TokenizerSpec spec = read_tokenizer_json(read_text_file(fs, path, kMaxJsonBytes), path);
  const std::string config_path = dir + "/tokenizer_config.json";
  if (fs.exists(config_path)) {
    read_token_names(read_text_file(fs, config_path, kMaxConfigBytes), config_path, spec);
  }
  return Tokenizer(std::make_shared<State>(spec));
}

EncodeResult Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextBytes) {
    throw Error(Code::kResourceExhausted,
                str("text of ", text.size(), " bytes exceeds the limit of ", kMaxTextBytes));
  }
  if (const auto broken = find_broken_utf8(text)) {
    throw Error(Code::kInvalidArgument, str("text is not UTF-8 at byte ", *broken))
        .with_location(str("byte ", *broken));
  }
  RL_CHECK(options.literal.empty() || options.literal.size() == text.size());
  const State& state = *state_;
  EncodeResult out;
  BpeScratch scratch;
  const auto may_cut = [&](size_t begin, size_t end) {
    if (options.literal.empty()) return options.allow_special;
    return options.allow_special && options.literal[begin] == 0 && options.literal[end - 1] == 0;
  };
  const auto push = [&](int32_t id) { out.ids.push_back(id); };
  const auto encode_words = [&](std::string_view piece) {
    state.encode_words(piece, scratch, out);
  };
  const auto normalize = [&](std::string_view piece) {
    const auto offset = static_cast<size_t>(piece.data() - text.data());
    const std::string composed = state.nfc ? to_nfc(piece) : std::string();
    // Marks do not apply to a text that composition changed, so no special token is matched in it.
    const bool is_moved = state.nfc && !options.literal.empty() && composed != piece;
    if (state.nfc) piece = composed;
    const auto may_cut_piece = [&](size_t begin, size_t end) {
      return !is_moved && may_cut(offset + begin, offset + end);
    };
    state.normalized_tokens.split(piece, may_cut_piece, encode_words, push);
  };
  if (options.add_special) out.ids = state.prefix_ids;
  state.raw_tokens.split(text, may_cut, normalize, push);
  if (options.add_special) {
    out.ids.insert(out.ids.end(), state.suffix_ids.begin(), state.suffix_ids.end());
  }
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    check_id(id);
    if (skip_special && is_special(id)) continue;
    bytes += state_->vocabulary.bytes(id);
  }
  return replace_broken_utf8(bytes);
}

void Tokenizer::check_id(int32_t id) const {
  if (has_token(id)) return;
  throw Error(Code::kOutOfRange,
              str("id ", id, " has no token; the vocabulary has ids below ", vocab_size()))
      .with_expected(str("0..", vocab_size() - 1));
}

int32_t Tokenizer::vocab_size() const { return state_->vocabulary.size(); }
bool Tokenizer::has_token(int64_t id) const { return state_->vocabulary.contains(id); }

std::string_view Tokenizer::token_bytes(int32_t id) const {
  check_id(id);
  return state_->vocabulary.bytes(id);
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token_text) const {
  return state_->vocabulary.find(token_text);
}

bool Tokenizer::is_special(int32_t id) const {
  check_id(id);
  return (state_->flags[static_cast<size_t>(id)] & kSpecial) != 0;
}

bool Tokenizer::depends_on_context(int32_t id) const {
  check_id(id);
  return (state_->flags[static_cast<size_t>(id)] & kContext) != 0;
}

std::optional<int32_t> Tokenizer::bos_id() const { return state_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return state_->eos_id; }
std::optional<int32_t> Tokenizer::pad_id() const { return state_->pad_id; }

}  // namespace rl
