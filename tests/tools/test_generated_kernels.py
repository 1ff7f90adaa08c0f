"""Kernels found in the code that Inductor generates, and what they read and write."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dynexplore.tools.generated_kernels import fused_dot, kernels_of

CPP = """
cpp_fused_cos_0 = async_compile.cpp_pybinding(['const float*', 'float*', 'float*'], r'''
#include <torch/csrc/inductor/cpp_prefix.h>
extern "C"  void  kernel(const float* in_ptr0,
                       float* in_out_ptr0,
                       float* out_ptr1)
{
    for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(1000L); x0+=static_cast<int64_t>(16L))
    {
        auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));
        auto tmp1 = in_out_ptr0[static_cast<int64_t>(x0)];
        tmp0.cos().store(in_out_ptr0 + static_cast<int64_t>(x0));
        out_ptr1[static_cast<int64_t>(x0)] = tmp1;
    }
}
''')
"""

TRITON = """
triton_poi_fused_cos_0 = async_compile.triton('triton_poi_fused_cos_0', '''
import triton
import triton.language as tl

@triton.jit
def triton_poi_fused_cos_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), None)
    tmp1 = tl_math.cos(tmp0)
    tl.store(out_ptr0 + (x0), tmp1, None)
''', device_str='cuda')
"""


@pytest.mark.plain("reads generated code that is given as text")
def test_kernels_in_cpp() -> None:
    """Name, language and text, under the name that the module calls it by."""
    (kernel,) = kernels_of(f"import torch\n{CPP}\nasync_compile.wait(globals())\n")
    assert (kernel.name, kernel.language) == ("cpp_fused_cos_0", "C++")
    assert kernel.text.startswith("// cpp_fused_cos_0\n#include") and kernel.text.endswith("}")


@pytest.mark.plain("reads generated code that is given as text")
def test_what_a_cpp_kernel_reads_and_writes() -> None:
    """Its arguments by name; one that is loaded from and stored to is both."""
    (kernel,) = kernels_of(CPP)
    assert kernel.reads == ("in_ptr0", "in_out_ptr0")
    assert kernel.writes == ("in_out_ptr0", "out_ptr1")


@pytest.mark.plain("reads generated code that is given as text")
def test_kernels_in_triton() -> None:
    """The same for a graphics card."""
    (kernel,) = kernels_of(TRITON)
    assert (kernel.name, kernel.language) == ("triton_poi_fused_cos_0", "Triton")
    assert kernel.text.startswith("# triton_poi_fused_cos_0\nimport triton")
    assert (kernel.reads, kernel.writes) == (("in_ptr0",), ("out_ptr0",))


@pytest.mark.plain("reads generated code that is given as text")
def test_several_kernels_keep_their_order() -> None:
    """As they stand in the module."""
    assert [kernel.name for kernel in kernels_of(CPP + TRITON)] == ["cpp_fused_cos_0", "triton_poi_fused_cos_0"]
    assert kernels_of("x = 1") == []


def scheduled(name: str, reads: list[str], writes: list[str], operators: list[str]) -> SimpleNamespace:
    """A node of Inductor's scheduler, as far as it is looked at."""
    origins = [SimpleNamespace(name=operator, op="call_function") for operator in operators] + [
        SimpleNamespace(name="x", op="placeholder")
    ]
    part = SimpleNamespace(node=SimpleNamespace(origins=origins))
    named = SimpleNamespace(
        reads=[SimpleNamespace(name=one) for one in reads], writes=[SimpleNamespace(name=one) for one in writes]
    )
    return SimpleNamespace(get_name=lambda: name, get_nodes=lambda: [part], read_writes=named)


@pytest.mark.plain("reads generated code that is given as text")
def test_the_diagram_has_a_box_for_each_kernel_and_an_edge_for_each_buffer() -> None:
    """Inputs are boxes, too; what a kernel makes for itself is no edge; names are quoted."""
    first = scheduled("op0_op1", ["x", "buf0"], ["buf0", "buf1"], ["cos", "sin"])
    text = fused_dot([first, scheduled("op2", ["buf1"], ["b"], ['a"b'])])
    assert 'x [label=x' in text
    assert 'op0_op1 [label="op0_op1: cos, sin"' in text
    assert 'op2 [label="op2: a\\"b"' in text
    assert [line.strip() for line in text.splitlines() if "->" in line] == [
        'x -> op0_op1 [label=x]',
        'op0_op1 -> op2 [label=buf1]',
    ]
