# SPDX-License-Identifier: Apache-2.0
"""The messages of the Open Inference Protocol, version 2, and its tensors."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

SERVICE = "inference.GRPCInferenceService"

# Messages and their fields, with the published names, types and numbers. `A.B` is nested in A; `oneof` and `map`
# stand before a field's types, and `*` behind the type of a repeated one.
_MESSAGES = """
ServerLiveRequest
ServerLiveResponse: bool live=1
ServerReadyRequest
ServerReadyResponse: bool ready=1
ServerMetadataRequest
ServerMetadataResponse: string name=1, string version=2, string* extensions=3
ModelReadyRequest: string name=1, string version=2
ModelReadyResponse: bool ready=1
ModelMetadataRequest: string name=1, string version=2
ModelMetadataResponse: string name=1, string* versions=2, string platform=3,
  ModelMetadataResponse.TensorMetadata* inputs=4, ModelMetadataResponse.TensorMetadata* outputs=5,
  map string string properties=6
ModelMetadataResponse.TensorMetadata: string name=1, string datatype=2, int64* shape=3
RepositoryIndexRequest: string repository_name=1, bool ready=2
RepositoryIndexResponse: RepositoryIndexResponse.ModelIndex* models=1
RepositoryIndexResponse.ModelIndex: string name=1, string version=2, string state=3, string reason=4
InferParameter: oneof bool bool_param=1, oneof int64 int64_param=2, oneof string string_param=3,
  oneof double double_param=4, oneof uint64 uint64_param=5
InferTensorContents: bool* bool_contents=1, int32* int_contents=2, int64* int64_contents=3, uint32* uint_contents=4,
  uint64* uint64_contents=5, float* fp32_contents=6, double* fp64_contents=7, bytes* bytes_contents=8
ModelInferRequest: string model_name=1, string model_version=2, string id=3, map string InferParameter parameters=4,
  ModelInferRequest.InferInputTensor* inputs=5, ModelInferRequest.InferRequestedOutputTensor* outputs=6,
  bytes* raw_input_contents=7
ModelInferRequest.InferInputTensor: string name=1, string datatype=2, int64* shape=3,
  map string InferParameter parameters=4, InferTensorContents contents=5
ModelInferRequest.InferRequestedOutputTensor: string name=1, map string InferParameter parameters=2
ModelInferResponse: string model_name=1, string model_version=2, string id=3, map string InferParameter parameters=4,
  ModelInferResponse.InferOutputTensor* outputs=5, bytes* raw_output_contents=6
ModelInferResponse.InferOutputTensor: string name=1, string datatype=2, int64* shape=3,
  map string InferParameter parameters=4, InferTensorContents contents=5
ModelStreamInferResponse: string error_message=1, ModelInferResponse infer_response=2
"""


def file_descriptor() -> Any:
    """The messages as a FileDescriptorProto of protobuf."""
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto(name="open_inference.proto", package="inference", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def put(to: Any, path: str, words: list[str]) -> None:
        name, number = words[-1].split("=")
        field = to.field.add(name=name, number=int(number), label=kinds.LABEL_OPTIONAL)
        if words[0] == "oneof":
            if not to.oneof_decl:
                to.oneof_decl.add(name="parameter_choice")
            field.oneof_index = 0
            words = words[1:]
        kind = words[0].removesuffix("*")
        if words[0] != kind:
            field.label = kinds.LABEL_REPEATED
        if kind == "map":
            entry = to.nested_type.add(name="".join(w.capitalize() for w in name.split("_")) + "Entry")
            entry.options.map_entry = True
            put(entry, "", [words[1], "key=1"])
            put(entry, "", [words[2], "value=2"])
            field.label, field.type = kinds.LABEL_REPEATED, kinds.TYPE_MESSAGE
            field.type_name = f".inference.{path}.{entry.name}"
        elif kind[0].isupper():
            field.type, field.type_name = kinds.TYPE_MESSAGE, f".inference.{kind}"
        else:
            field.type = getattr(kinds, f"TYPE_{kind.upper()}")

    made: dict[str, Any] = {}
    for line in _MESSAGES.replace(",\n ", ",").strip().splitlines():
        name, _, fields = line.partition(":")
        outer, _, inner = name.partition(".")
        made[name] = made[outer].nested_type.add(name=inner) if inner else file.message_type.add(name=outer)
        for one in filter(None, map(str.split, fields.split(","))):
            put(made[name], name, one)
    return file


def message_classes() -> dict[str, Any]:
    """The classes of the messages, by name, apart from those that a program may have under the same name."""
    from google.protobuf import descriptor_pool, message_factory

    pool, file = descriptor_pool.DescriptorPool(), file_descriptor()
    pool.Add(file)
    if hasattr(message_factory, "GetMessageClass"):
        make = message_factory.GetMessageClass
    else: # before protobuf 4.22
        make = message_factory.MessageFactory(pool).GetPrototype
    return {m.name: make(pool.FindMessageTypeByName(f"inference.{m.name}")) for m in file.message_type}


# Tensors ------------------------------------------------------------------------------------------

# By the name of torch's type: the protocol's one, the field of its contents, and the format of an element.
_TYPES = {"bool": ("BOOL", "bool_contents", "?"), "uint8": ("UINT8", "uint_contents", "B"),
          "uint16": ("UINT16", "uint_contents", "H"), "uint32": ("UINT32", "uint_contents", "I"),
          "uint64": ("UINT64", "uint64_contents", "Q"), "int8": ("INT8", "int_contents", "b"),
          "int16": ("INT16", "int_contents", "h"), "int32": ("INT32", "int_contents", "i"),
          "int64": ("INT64", "int64_contents", "q"), "float16": ("FP16", None, None), "bfloat16": ("BF16", None, None),
          "float32": ("FP32", "fp32_contents", "f"), "float64": ("FP64", "fp64_contents", "d")}


class InvalidTensor(ValueError):
    """One line: which tensor, what is wrong, what was expected."""


class TensorType:
    """A tensor of a model, as the protocol describes it."""

    def __init__(self, name: str, tensor: Any) -> None:
        kind = str(tensor.dtype).removeprefix("torch.")
        if kind not in _TYPES:
            raise InvalidTensor(f"{name}: {kind}, which the protocol does not have, expected one of "
                                f"{', '.join(_TYPES)}")
        self.name, self.shape, self.dtype = name, tuple(tensor.shape), tensor.dtype
        self.datatype, self._field, self._format = _TYPES[kind]
        self.bytes = tensor.numel() * tensor.element_size()

    def contents(self, given: Any, raw: bytes | None) -> bytes:
        """The elements of an input of a request, row by row."""
        shown = f"input \"{given.name}\""
        if given.datatype != self.datatype:
            raise InvalidTensor(f"{shown}: datatype \"{given.datatype}\", expected {self.datatype}")
        if tuple(given.shape) != self.shape:
            raise InvalidTensor(f"{shown}: shape {list(given.shape)}, expected {list(self.shape)}")
        if raw is None:
            raw = self._packed(given, shown)
        elif given.HasField("contents"):
            raise InvalidTensor(f"{shown}: contents beside raw_input_contents, expected one of them")
        if len(raw) != self.bytes:
            raise InvalidTensor(f"{shown}: {len(raw)} bytes, expected {self.bytes}")
        return raw

    def _packed(self, given: Any, shown: str) -> bytes:
        if self._field is None:
            raise InvalidTensor(f"{shown}: {self.datatype} as contents, expected raw_input_contents")
        values = getattr(given.contents, self._field)
        if len(values) != math.prod(self.shape):
            raise InvalidTensor(f"{shown}: {len(values)} elements in {self._field}, expected {math.prod(self.shape)}")
        try:
            return struct.pack(f"<{len(values)}{self._format}", *values)
        except struct.error:
            raise InvalidTensor(f"{shown}: an element that is no {self.datatype}") from None


def tensor_types(kind: str, tensors: list[Any]) -> list[TensorType]:
    """The types of a model's tensors, which are called `kind`, or kind_0, kind_1 and so on."""
    return [TensorType(kind if len(tensors) == 1 else f"{kind}_{i}", x) for i, x in enumerate(tensors)]


def bytes_of(tensor: Any) -> bytes:
    """The elements of a tensor on the host, row by row."""
    tensor = tensor.contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
