"""Families of transformers' models as a program has them (caches on by default), and what a program does with one, phase by phase.

In: a name of a family. Out: `Family.make()`, a small module with random weights, and `PHASES`, each of which runs a module over
three lengths and gives what came of it: tensors that can be compared. Nothing is downloaded; a version of transformers that lacks
a family says so when it is made.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from support.measuring import loss_of

LENGTHS = (5, 9, 12)
VOCABULARY = 100


@dataclass(frozen=True)
class Family:
    """A model class with a small configuration, the inputs it takes, and the phases that make sense for it."""

    name: str
    model: str
    config: str
    inputs: Callable[[int], dict[str, Any]]
    phases: tuple[str, ...]
    sizes: dict[str, Any] = field(default_factory=dict)

    def make(self, device: str = "cpu") -> nn.Module:
        """The module in eval mode, with random weights: the same on each device."""
        transformers = importlib.import_module("transformers")
        torch.manual_seed(0)
        module: nn.Module = getattr(transformers, self.model)(getattr(transformers, self.config)(**self.sizes))
        return module.eval().to(device)

    def inputs_on(self, device: str) -> Callable[[int], dict[str, Any]]:
        """The inputs of a length, on a device."""
        return lambda length: {name: value.to(device) for name, value in self.inputs(length).items()}


# -- inputs of a length (for images: of a batch size) ------------------------------------------------------------------


def _random(length: int) -> torch.Generator:
    return torch.Generator().manual_seed(length)


def _ids(length: int) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (2, length), generator=_random(length))


def _tokens(length: int) -> dict[str, Any]:
    return {"input_ids": _ids(length)}


def _two_sequences(length: int) -> dict[str, Any]:
    return {"input_ids": _ids(length), "decoder_input_ids": _ids(length + 1)}


def _spectrogram(length: int) -> dict[str, Any]:
    features = torch.randn(2, 80, 60, generator=_random(length))
    return {"input_features": features, "decoder_input_ids": _ids(length)}


def _sound(length: int) -> dict[str, Any]:
    return {"input_values": torch.randn(2, 400 + 160 * length, generator=_random(length))}


def _images(length: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(length, 3, 32, 32, generator=_random(length))}


def _larger_images(length: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(length, 3, 64, 64, generator=_random(length))}


def _images_and_text(length: int) -> dict[str, Any]:
    return {**_images(2), "input_ids": _ids(length)}


def _images_and_points(length: int) -> dict[str, Any]:
    return {**_larger_images(2), "input_points": 64 * torch.rand(2, 1, length, 2, generator=_random(length))}


def _sound_and_text(length: int) -> dict[str, Any]:
    return {"input_features": torch.randn(2, 1, 64, 64, generator=_random(length)), "input_ids": _ids(length)}


# -- phases: each takes the module, and `call`, which is its forward, compiled or not ------------------------------------

Call = Callable[..., Any]
Told = Callable[[], None]


def _tensors(outputs: Any) -> list[torch.Tensor]:
    return [leaf.detach() for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]


def forward(module: nn.Module, call: Call, inputs: Callable[[int], dict[str, Any]], warm: Told) -> Iterator[Any]:
    """Inference."""
    with torch.no_grad():
        for length in LENGTHS:
            yield _tensors(call(**inputs(length)))


def gradients(module: nn.Module, call: Call, inputs: Callable[[int], dict[str, Any]], warm: Told) -> Iterator[Any]:
    """Forward and backward."""
    for length in LENGTHS:
        module.zero_grad()
        outputs = call(**inputs(length))
        loss_of(outputs).backward()
        yield [_tensors(outputs), {name: parameter.grad for name, parameter in module.named_parameters()}]


def _steps(call: Call, given: dict[str, Any], cache: Any, steps: int, warm: Told) -> Iterator[Any]:
    """Prefill, then so many steps, each of one token; `warm` is told behind the first of them."""
    name = "decoder_input_ids" if "decoder_input_ids" in given else "input_ids"
    kept = {} if name == "input_ids" else {"encoder_outputs": None}
    place = given[name].shape[1]
    for step in range(steps + 1):
        position = torch.arange(place) if step == 0 else torch.tensor([place + step - 1])
        position = position.to(given[name].device)
        where = {"cache_position": position} if name == "input_ids" else {}
        outputs = call(**given, past_key_values=cache, use_cache=True, **where)
        yield outputs.logits
        if step == 1:
            warm()
        if kept:
            kept = {"encoder_outputs": (outputs.encoder_last_hidden_state,)}
        given, cache = {name: outputs.logits[:, -1:].argmax(-1), **kept}, outputs.past_key_values


def decode(module: nn.Module, call: Call, inputs: Callable[[int], dict[str, Any]], warm: Told) -> Iterator[Any]:
    """Prefill and 4 steps with the cache that the model makes, for each length; then 64 steps."""
    with torch.no_grad():
        for length in LENGTHS:
            yield from _steps(call, inputs(length), None, 4, lambda: None)
        yield from _steps(call, inputs(LENGTHS[0]), None, 64, warm)


def static(module: nn.Module, call: Call, inputs: Callable[[int], dict[str, Any]], warm: Told) -> Iterator[Any]:
    """Prefill and steps with a StaticCache, for each length; then 64 steps."""
    cache = importlib.import_module("transformers").StaticCache
    with torch.no_grad():
        for length, steps in (*((length, 4) for length in LENGTHS), (LENGTHS[0], 64)):
            made = cache(config=module.config, max_cache_len=96)
            yield from _steps(call, inputs(length), made, steps, warm if steps == 64 else lambda: None)


def _generated(module: nn.Module, inputs: Callable[[int], dict[str, Any]], **how: Any) -> Iterator[Any]:
    for length in LENGTHS:
        torch.manual_seed(length)
        given = {name: value for name, value in inputs(length).items() if name != "decoder_input_ids"}
        yield module.generate(**given, max_new_tokens=8, min_new_tokens=8, pad_token_id=0, **how)  # type: ignore[operator]


def greedy(module: nn.Module, call: Call, inputs: Callable[[int], dict[str, Any]], warm: Told) -> Iterator[Any]:
    """`generate` with the forward compiled."""
    yield from _generated(module, inputs, do_sample=False)


def sampling(module: nn.Module, call: Call, inputs: Callable[[int], dict[str, Any]], warm: Told) -> Iterator[Any]:
    """`generate` with random draws under a seed."""
    yield from _generated(module, inputs, do_sample=True, top_k=10)


def beam(module: nn.Module, call: Call, inputs: Callable[[int], dict[str, Any]], warm: Told) -> Iterator[Any]:
    """`generate` with three beams."""
    yield from _generated(module, inputs, do_sample=False, num_beams=3)


PHASES = {phase.__name__: phase for phase in (forward, gradients, decode, static, greedy, sampling, beam)}

# -- the families ------------------------------------------------------------------------------------------------------

_DECODER = ("forward", "gradients", "decode", "static", "greedy", "sampling", "beam")
_TWO = ("forward", "gradients", "decode", "greedy", "sampling", "beam")
_PLAIN = ("forward", "gradients")

_SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": VOCABULARY,
    "max_position_embeddings": 128,
}  # fmt: skip
_TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_KEYS = {**_SMALL, "num_key_value_heads": 2, **_TOKENS}
_GEMMA = {**_KEYS, "head_dim": 8}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY, "n_positions": 128, **_TOKENS}
_NEO = {
    "hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "vocab_size": VOCABULARY,
    "max_position_embeddings": 128, **_TOKENS,
}  # fmt: skip
_T5 = {
    "d_model": 32, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 8, "vocab_size": VOCABULARY, "decoder_start_token_id": 0,
}  # fmt: skip
_BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "vocab_size": VOCABULARY, "max_position_embeddings": 128, **_TOKENS,
    "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip
_WHISPER = {**_BART, "num_mel_bins": 80, "max_source_positions": 30, "max_target_positions": 128, "begin_suppress_tokens": None}
_WAV2VEC2 = {
    **_SMALL, "conv_dim": (16, 16, 16), "conv_stride": (5, 4, 4), "conv_kernel": (10, 8, 4), "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}  # fmt: skip
_MAMBA = {"hidden_size": 32, "state_size": 8, "num_hidden_layers": 2, "vocab_size": VOCABULARY, **_TOKENS}
_VIT = {**_SMALL, "image_size": 32, "patch_size": 8}
_ALBERT = {**_SMALL, "embedding_size": 16}
_DISTILBERT = {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": VOCABULARY, "max_position_embeddings": 128}
_CODEGEN = {**_GPT2, "rotary_dim": 4}
_BLOOM = {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY, **_TOKENS}
_FALCON = {**_KEYS, "num_kv_heads": 2, "new_decoder_architecture": True}
_OPT = {**_KEYS, "ffn_dim": 64, "word_embed_proj_dim": 32}
_EXPERTS = {**_KEYS, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_GPT_OSS = {**_GEMMA, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8}
_MAMBA2 = {**_MAMBA, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 4}
_M2M100 = {**_BART, "max_length": None}
_SAM = {
    "vision_config": {
        "hidden_size": 32, "output_channels": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 64,
        "patch_size": 16, "mlp_dim": 64, "window_size": 2, "global_attn_indexes": [1], "num_pos_feats": 8,
    },
    "prompt_encoder_config": {"hidden_size": 16, "image_size": 64, "patch_size": 16, "mask_input_channels": 4},
    "mask_decoder_config": {
        "hidden_size": 16, "mlp_dim": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "iou_head_hidden_dim": 16,
    },
}  # fmt: skip
_CLAP = {
    "text_config": {**_SMALL, **_TOKENS, "pad_token_id": 1}, "projection_dim": 16,
    "audio_config": {
        "spec_size": 64, "num_mel_bins": 64, "window_size": 4, "patch_size": 4, "patch_stride": [4, 4], "depths": [2, 2],
        "num_attention_heads": [2, 4], "patch_embeds_hidden_size": 16, "hidden_size": 32, "num_hidden_layers": 2,
    },
}  # fmt: skip
_CONVNEXT = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}
_SEGFORMER = {
    "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [16, 32], "num_attention_heads": [2, 4],
    "patch_sizes": [7, 3], "strides": [4, 2], "mlp_ratios": [2, 2], "decoder_hidden_size": 16,
}  # fmt: skip
_CLIP = {
    "text_config": {**_SMALL, **_TOKENS}, "vision_config": {**_SMALL, "image_size": 32, "patch_size": 8}, "projection_dim": 16,
}  # fmt: skip
_SWIN = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
_DETR = {
    "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "d_model": 32, "encoder_layers": 2,
    "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "num_queries": 8,
    "backbone_config": {
        "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic",
        "out_features": ["stage2"],
    },
}  # fmt: skip

FAMILIES = [
    Family("gpt2", "GPT2LMHeadModel", "GPT2Config", _tokens, _DECODER, _GPT2),
    Family("gpt-neo", "GPTNeoForCausalLM", "GPTNeoConfig", _tokens, _DECODER, _NEO),
    Family("llama", "LlamaForCausalLM", "LlamaConfig", _tokens, _DECODER, _KEYS),
    Family("qwen2", "Qwen2ForCausalLM", "Qwen2Config", _tokens, _DECODER, _KEYS),
    Family("qwen3", "Qwen3ForCausalLM", "Qwen3Config", _tokens, _DECODER, _GEMMA),
    Family("mistral", "MistralForCausalLM", "MistralConfig", _tokens, _DECODER, {**_KEYS, "sliding_window": 8}),
    Family("mixtral", "MixtralForCausalLM", "MixtralConfig", _tokens, _DECODER, {**_KEYS, "num_local_experts": 4}),
    Family("gemma", "GemmaForCausalLM", "GemmaConfig", _tokens, _DECODER, _GEMMA),
    Family("gemma2", "Gemma2ForCausalLM", "Gemma2Config", _tokens, _DECODER, {**_GEMMA, "sliding_window": 8}),
    Family("phi", "PhiForCausalLM", "PhiConfig", _tokens, _DECODER, _KEYS),
    Family("t5", "T5ForConditionalGeneration", "T5Config", _two_sequences, _TWO, _T5),
    Family("bart", "BartForConditionalGeneration", "BartConfig", _two_sequences, _TWO, _BART),
    Family("whisper", "WhisperForConditionalGeneration", "WhisperConfig", _spectrogram, _TWO, _WHISPER),
    Family("wav2vec2", "Wav2Vec2Model", "Wav2Vec2Config", _sound, _PLAIN, _WAV2VEC2),
    Family("mamba", "MambaForCausalLM", "MambaConfig", _tokens, ("forward", "gradients", "greedy"), _MAMBA),
    Family("bert", "BertModel", "BertConfig", _tokens, _PLAIN, _SMALL),
    Family("vit", "ViTModel", "ViTConfig", _images, _PLAIN, _VIT),
    Family("clip", "CLIPModel", "CLIPConfig", _images_and_text, _PLAIN, _CLIP),
    Family("swin", "SwinModel", "SwinConfig", _images, _PLAIN, _SWIN),
    Family("detr", "DetrForObjectDetection", "DetrConfig", _larger_images, _PLAIN, _DETR),
    Family("roberta", "RobertaForCausalLM", "RobertaConfig", _tokens, _TWO, {**_SMALL, **_TOKENS, "is_decoder": True}),
    Family("mbart", "MBartForConditionalGeneration", "MBartConfig", _two_sequences, _TWO, _BART),
    Family("sam", "SamModel", "SamConfig", _images_and_points, _PLAIN, _SAM),
    Family("albert", "AlbertModel", "AlbertConfig", _tokens, _PLAIN, _ALBERT),
    Family("olmoe", "OlmoeForCausalLM", "OlmoeConfig", _tokens, _DECODER, {**_KEYS, "num_experts": 4, "num_experts_per_tok": 2}),
    Family("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", _tokens, _DECODER, _KEYS),
    Family("codegen", "CodeGenForCausalLM", "CodeGenConfig", _tokens, _DECODER, _CODEGEN),
    Family("stablelm", "StableLmForCausalLM", "StableLmConfig", _tokens, _DECODER, _KEYS),
    Family("deit", "DeiTModel", "DeiTConfig", _images, _PLAIN, _VIT),
    Family("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", _tokens, _DECODER, {**_GEMMA, "sliding_window": 8}),
    Family("smollm3", "SmolLM3ForCausalLM", "SmolLM3Config", _tokens, _DECODER, _KEYS),
    Family("granite", "GraniteForCausalLM", "GraniteConfig", _tokens, _DECODER, _KEYS),
    Family("phi3", "Phi3ForCausalLM", "Phi3Config", _tokens, _DECODER, _KEYS),
    Family("cohere", "CohereForCausalLM", "CohereConfig", _tokens, _DECODER, _KEYS),
    Family("cohere2", "Cohere2ForCausalLM", "Cohere2Config", _tokens, _DECODER, {**_GEMMA, "sliding_window": 8}),
    Family("olmo2", "Olmo2ForCausalLM", "Olmo2Config", _tokens, _DECODER, _KEYS),
    Family("mamba2", "Mamba2ForCausalLM", "Mamba2Config", _tokens, ("forward", "gradients", "greedy"), _MAMBA2),
    Family("siglip", "SiglipModel", "SiglipConfig", _images_and_text, _PLAIN, _CLIP),
    Family("dinov2", "Dinov2Model", "Dinov2Config", _images, _PLAIN, _VIT),
    Family("clap", "ClapModel", "ClapConfig", _sound_and_text, _PLAIN, _CLAP),
    Family("gpt_oss", "GptOssForCausalLM", "GptOssConfig", _tokens, _DECODER, _GPT_OSS),
    Family("qwen3_moe", "Qwen3MoeForCausalLM", "Qwen3MoeConfig", _tokens, _DECODER, {**_EXPERTS, "head_dim": 8}),
    Family("lfm2", "Lfm2ForCausalLM", "Lfm2Config", _tokens, ("forward", "gradients", "decode", "greedy"), _KEYS),
    Family("opt", "OPTForCausalLM", "OPTConfig", _tokens, _DECODER, _OPT),
    Family("bloom", "BloomForCausalLM", "BloomConfig", _tokens, _TWO, _BLOOM),
    Family("falcon", "FalconForCausalLM", "FalconConfig", _tokens, _DECODER, _FALCON),
    Family("modernbert", "ModernBertModel", "ModernBertConfig", _tokens, _PLAIN, {**_SMALL, **_TOKENS}),
    Family("electra", "ElectraModel", "ElectraConfig", _tokens, _PLAIN, _ALBERT),
    Family("distilbert", "DistilBertModel", "DistilBertConfig", _tokens, _PLAIN, _DISTILBERT),
    Family("deberta_v2", "DebertaV2Model", "DebertaV2Config", _tokens, _PLAIN, {**_SMALL, "relative_attention": True}),
    Family("m2m100", "M2M100ForConditionalGeneration", "M2M100Config", _two_sequences, _TWO, _M2M100),
    Family("marian", "MarianMTModel", "MarianConfig", _two_sequences, _TWO, _BART),
    Family("hubert", "HubertModel", "HubertConfig", _sound, _PLAIN, _WAV2VEC2),
    Family("convnext", "ConvNextModel", "ConvNextConfig", _images, _PLAIN, _CONVNEXT),
    Family("segformer", "SegformerModel", "SegformerConfig", _larger_images, _PLAIN, _SEGFORMER),
]
