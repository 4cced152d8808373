"""Whether a checkpoint's tensors are the model's, proved from headers and the model graph: no weight is loaded.

`prove` gives the `WeightProof`. Below it, `fillings` says which keys make each tensor of the model, `sizes` what shape
renames make of shapes, and `ranks` over how many tensor-parallel ranks the tensors can be cut.
"""

from kunport.analysis.weights.proof import Fault, WeightProof, check, prove, refuse_misfit
from kunport.analysis.weights.ranks import Ranks, tensor_parallel

__all__ = ["Fault", "Ranks", "WeightProof", "check", "prove", "refuse_misfit", "tensor_parallel"]
