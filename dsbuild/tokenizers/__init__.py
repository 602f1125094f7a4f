"""tokenizers: text to token ids. ``load_tokenizer`` and ``probe`` take what ``[tokenizer] file`` says."""

from dsbuild.tokenizers.load import TokenizerFacts, load_tokenizer, probe

__all__ = ["TokenizerFacts", "load_tokenizer", "probe"]
