# SPDX-License-Identifier: Apache-2.0
"""The structs of include/colibri, in the order of the headers and field by field.

A field is declared once: the annotation is its type for readers and type checkers, and carries the
C type that the struct is made of. Results that hold no pointers are handed to users as they are.
tests/test_structs.py compares every size and offset with what a C compiler says.
"""

import ctypes
from typing import Annotated, Any, Optional, TypeVar

i32 = Annotated[int, ctypes.c_int32]
u32 = Annotated[int, ctypes.c_uint32]
u64 = Annotated[int, ctypes.c_uint64]
c_size = Annotated[int, ctypes.c_size_t]
f32 = Annotated[float, ctypes.c_float]
f64 = Annotated[float, ctypes.c_double]
c_text = Annotated[Optional[bytes], ctypes.c_char_p]
pointer = Annotated[Optional[int], ctypes.c_void_p]
text16 = Annotated[bytes, ctypes.c_char * 16]
text32 = Annotated[bytes, ctypes.c_char * 32]
text248 = Annotated[bytes, ctypes.c_char * 248]
text256 = Annotated[bytes, ctypes.c_char * 256]

ProgressFunction = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64
)
LogFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)
progress_fn = Annotated[Any, ProgressFunction]
log_fn = Annotated[Any, LogFunction]


class Mirror(ctypes.Structure):
    """A struct of the C interface. Its fields are the annotations of its class; see mirror()."""

    def __repr__(self) -> str:
        names = [field[0] for field in self._fields_ if field[0] not in ("struct_size", "reserved")]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({values})"


M = TypeVar("M", bound=Mirror)


def mirror(kind: type[M]) -> type[M]:
    """Makes the annotations of a class the fields of the struct."""
    annotations: Any = kind.__annotations__
    kind._fields_ = [(name, field.__metadata__[0]) for name, field in annotations.items()]
    return kind


def sized(kind: type[M]) -> M:
    """A struct that the library fills: all zero but struct_size."""
    return kind(struct_size=ctypes.sizeof(kind))


@mirror
class ErrorStruct(Mirror):
    struct_size: u32
    code: i32
    message: text248


@mirror
class ModelOptionsStruct(Mirror):
    struct_size: u32
    n_threads: u32
    ram_budget_bytes: u64
    n_slots: u32
    context_tokens: u32
    max_rows: u32
    max_logits_rows: u32
    n_engines: u32
    activations: i32
    kv_type: i32
    latent_norm_eps: f32
    n_loader_threads: u32
    skip_tokenizer: u32
    kernel_set: c_text
    progress: progress_fn
    progress_user: pointer
    log: log_fn
    log_user: pointer
    log_level: i32
    refuse_outside_links: u32


@mirror
class Plan(Mirror):
    """The capacity decision for a snapshot and options; all sizes in bytes."""

    struct_size: u32
    is_feasible: u32
    budget_bytes: u64
    dense_bytes: u64
    kv_bytes: u64
    workspace_bytes: u64
    staging_bytes: u64
    overhead_bytes: u64
    expert_bytes: u64
    total_bytes: u64
    minimum_bytes: u64
    full_bytes: u64
    all_experts_bytes: u64
    largest_expert_bytes: u64
    n_experts: u64
    kv_bytes_per_token: u64
    n_slots: u32
    context_tokens: u32
    max_rows: u32
    max_logits_rows: u32
    n_engines: u32
    n_threads: u32
    largest_context_tokens: u64


@mirror
class ModelFactsStruct(Mirror):
    struct_size: u32
    vocabulary_size: u32
    n_token_ids: u32
    width: u32
    n_layers: u32
    n_experts: u32
    n_experts_per_token: u32
    max_positions: u32
    context_tokens: u32
    n_slots: u32
    max_rows: u32
    max_logits_rows: u32
    n_engines: u32
    n_threads: u32
    activations: i32
    kv_type: i32
    latent_norm_eps: f32
    has_tokenizer: u32
    kernel_set: c_text
    model_type: c_text
    identity: u64
    kv_window_layers: u32


@mirror
class SchedulerOptionsStruct(Mirror):
    struct_size: u32
    n_slots: u32
    row_budget: u32
    prefill_chunk: u32
    decode_reserve: u32
    max_queued: u32


@mirror
class SamplerStruct(Mirror):
    struct_size: u32
    temperature: f32
    top_k: u32
    top_p: f32
    min_p: f32
    repetition_penalty: f32
    repetition_window: u32
    reserved: u32
    seed: u64


@mirror
class RequestOptionsStruct(Mirror):
    struct_size: u32
    max_tokens: u32
    prompt_ids: Annotated[Any, ctypes.POINTER(ctypes.c_int32)]
    n_prompt_ids: c_size
    sampler: Annotated[Any, ctypes.POINTER(SamplerStruct)]
    stop_ids: Annotated[Any, ctypes.POINTER(ctypes.c_int32)]
    n_stop_ids: c_size
    stop_strings: Annotated[Any, ctypes.POINTER(ctypes.c_char_p)]
    n_stop_strings: c_size
    ignore_model_stops: u32
    priority: i32
    user_data: u64
    wants_logprobs: u32
    reserved: u32


@mirror
class StepResult(Mirror):
    """What one step did; see colibri_step_result in scheduler.h."""

    struct_size: u32
    n_rows: u32
    n_prefill_rows: u32
    n_decode_rows: u32
    n_active: u32
    n_queued: u32
    n_events: u32
    reserved: u32
    elapsed_ns: u64


@mirror
class EventStruct(Mirror):
    kind: i32
    token: i32
    request: u64
    user_data: u64
    text: pointer
    text_bytes: u32
    finish: i32
    status: i32
    logprob: f32
    n_prompt_done: u32
    n_prompt: u32
    n_prompt_reused: u32
    n_generated: u32
    prefill_ns: u64
    decode_ns: u64
    message: c_text


@mirror
class ModelStats(Mirror):
    """Counters of a model and its expert cache; see colibri_model_stats in stats.h."""

    struct_size: u32
    n_slots_in_use: u32
    n_engines_in_use: u32
    largest_queue_depth: u32
    expert_hits: u64
    expert_misses: u64
    expert_reads: u64
    read_bytes: u64
    read_failures: u64
    expert_evictions: u64
    resident_experts: u64
    resident_expert_bytes: u64
    expert_budget_bytes: u64
    expert_wait_ns: u64
    n_passes: u64
    n_rows: u64
    dense_bytes_touched: u64
    expert_bytes_touched: u64
    kv_bytes_touched: u64
    n_experts_touched: u64
    n_expert_rows: u64
    n_integer_macs: u64
    n_compute_regions: u64
    compute_region_ns: u64
    compute_busy_ns: u64
    n_expert_macs: u64
    expert_ns: u64


@mirror
class SchedulerStats(Mirror):
    """Counters of a scheduler; see colibri_scheduler_stats in stats.h."""

    struct_size: u32
    n_active: u32
    n_queued: u32
    reserved: u32
    n_submitted: u64
    n_rejected: u64
    n_finished: u64
    n_length: u64
    n_stopped: u64
    n_cancelled: u64
    n_failed: u64
    n_steps: u64
    n_prefill_rows: u64
    n_decode_rows: u64
    n_reused_positions: u64
    n_tokens: u64


@mirror
class ChatMessageStruct(Mirror):
    struct_size: u32
    role: i32
    text: c_text


@mirror
class ConvertOptionsStruct(Mirror):
    struct_size: u32
    experts: i32
    dense: i32
    embedding: i32
    head: i32
    group: u32
    scales: i32
    n_threads: u32
    resume: u32
    reserved: u32
    max_shard_bytes: u64
    progress: progress_fn
    progress_user: pointer


@mirror
class ConvertReport(Mirror):
    """What a conversion did; see colibri_convert_report in convert.h."""

    struct_size: u32
    reserved: u32
    source_bytes: u64
    result_bytes: u64
    n_tensors: u64
    n_kept_matrices: u64
    n_quantised_matrices: u64
    n_resumed_tensors: u64
    relative_error: f64


@mirror
class VerifyReport(Mirror):
    """What verify() found; n_damaged is 0 for a sound snapshot."""

    struct_size: u32
    n_damaged: u32
    n_tensors: u64
    n_files: u64
    bytes: u64
    first_damaged: text256


@mirror
class SynthesisOptionsStruct(Mirror):
    struct_size: u32
    n_layers: u32
    shape: c_text
    skew: f32
    repeat: f32
    seed: u64
    n_threads: u32
    reserved: u32
    progress: progress_fn
    progress_user: pointer


@mirror
class MeasureOptionsStruct(Mirror):
    struct_size: u32
    n_threads: u32
    kernel_set: c_text
    matrix: i32
    columns: u32
    depth: u32
    min_runs: u32
    memory_bytes: u64


@mirror
class MachineFigures(Mirror):
    """What bounds the kernels; see colibri_machine_figures in measure.h."""

    struct_size: u32
    n_threads: u32
    read_gbps: f64
    peak_gmacs: f64
    cache_gmacs: f64
    kernel_set: text16
    instruction: text32


@mirror
class KernelFigures(Mirror):
    """Figures of one number of rows; see colibri_kernel_figures in measure.h."""

    struct_size: u32
    n_rows: u32
    seconds: f64
    gbps: f64
    gmacs: f64
    relative_time: f64
    roof_share: f64
