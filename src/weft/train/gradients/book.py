"""The book of gradients: every parameter by name, which of them take part, and whose came astray.

Layers are frozen and unfrozen while a model trains, and an optimizer may move parameters of no
module. So who takes part is looked at in each step, not once. All members must come to the same
list in the same order, because gradients travel without their names; what is frozen is therefore a
part of the state that newcomers receive.
"""

from collections.abc import Callable, Sequence

from torch import Tensor
from torch.nn import Parameter

from weft.model.errors import SpecError

Named = Sequence[tuple[str, Parameter]]


class GradientBook:
    """All parameters of a program, as far as their gradients are concerned."""

    def __init__(
        self, named: Callable[[], Named], arrived: Callable[[Tensor], None] = lambda _: None
    ) -> None:
        self.taking_part: list[Parameter] = []
        self.expecting = False  # whether gradients come by weft.backward
        self._named, self._arrived = named, arrived
        self._names: dict[int, str] = {}
        self._hooked: set[int] = set()
        self._stray = ""

    def name(self, parameter: Tensor) -> str:
        return self._names[id(parameter)]

    def look(self) -> bool:
        """Look who takes part now; whether others did before."""
        named = self._named()
        found = [parameter for _, parameter in named if parameter.requires_grad]
        known = self.taking_part
        if len(found) == len(known) and all(map(_same, found, known)):
            return False
        self.taking_part = found
        self._names = {id(parameter): name for name, parameter in named}
        for parameter in found:
            if id(parameter) not in self._hooked:
                self._hooked.add(id(parameter))
                parameter.register_post_accumulate_grad_hook(self._came)  # type: ignore[no-untyped-call]
        return True

    def clear(self) -> None:
        """A step begins: nobody has a gradient, also who takes no part."""
        self._stray, self.expecting = "", False
        for _, parameter in self._named():
            parameter.grad = None

    def take_away(self) -> dict[int, Tensor]:
        """The gradients that there are, which nobody is to see before they are summed."""
        found = {id(p): p.grad for p in self.taking_part if p.grad is not None}
        for parameter in self.taking_part:
            parameter.grad = None
        return found

    def give_back(self, kept: dict[int, Tensor]) -> None:
        for parameter in self.taking_part:
            parameter.grad = kept.get(id(parameter))

    def finish(self, unit: float, weight: float) -> None:
        """Of a worker that sums with nobody: as the others would see them."""
        for parameter in self.taking_part:
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.to_dense()
            if parameter.grad is not None and weight and unit != weight:
                parameter.grad.mul_(unit / weight)

    def check(self) -> None:
        """Refuse gradients that would be summed by nobody."""
        if self._stray:
            raise SpecError(
                f"a gradient of {self._stray} came by another way than weft.backward",
                hint="add the losses up and call weft.backward(loss) once; for a gradient that is "
                "not to be applied use torch.autograd.grad",
            )

    def _came(self, parameter: Tensor) -> None:
        if self.expecting:
            self._arrived(parameter)
        else:
            self._stray = self._stray or self.name(parameter)


def _same(one: object, other: object) -> bool:
    return one is other
