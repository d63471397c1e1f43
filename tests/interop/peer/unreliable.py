"""What UC and UD must do: messages come whole or not at all, and on a good link they come."""

import pyverbs.enums as e
from channel import expect
from end import SLOT, SLOTS, message


def check_unreliable(end):
    Batches(end).run()


class Batches:
    def __init__(self, end):
        self.end, self.first = end, 1
        mtu = end.options.mtu
        self.sizes = [4, 5, 6, 7, 255, 256, mtu - 1, mtu]
        if end.transport == "uc":
            self.sizes += [mtu + 1, 2 * mtu, 2 * mtu + 3, 12345]
        self.sizes *= 2

    def run(self):
        self.batch("send", e.IBV_WR_SEND)
        self.batch("send with immediate", e.IBV_WR_SEND_WITH_IMM, imm=True)
        if self.end.transport == "uc":
            self.batch("write", e.IBV_WR_RDMA_WRITE, written=True)
            self.batch("write with immediate", e.IBV_WR_RDMA_WRITE_WITH_IMM, imm=True, written=True)

    def batch(self, what, opcode, imm=False, written=False):
        end, lossy = self.end, self.end.options.lossy
        if lossy:  # a UC queue pair of rxe hears nothing more after a write whose last packet is lost
            end.reconnect()
        end.order("open")
        for place, size in enumerate(self.sizes):
            number = self.first + place
            end.memory.write(message(number, size), size, place * SLOT)
            end.post(opcode, size, offset=place * SLOT, remote=(SLOTS + place) * SLOT,
                     imm=number + 1 if imm else 0)
        for _ in self.sizes:
            end.completion(what)
        if written and not imm:
            came = self.written(what, lossy)
        else:
            came = end.order("collect", what=what, first=self.first, sizes=self.sizes, imm=imm,
                             written=written, lossy=lossy)
        if lossy:
            if came == 0:
                raise SystemExit(f"{what}: nothing came")
        else:
            expect(f"{what}: messages that came", came, len(self.sizes))
        self.first += len(self.sizes)
        end.did(what, came)

    def written(self, what, lossy):
        """A message behind the writes tells that they are over, where it is not lost itself."""
        end, number = self.end, self.first + len(self.sizes)
        place = len(self.sizes) * SLOT
        end.memory.write(message(number, 4), 4, place)
        end.post(e.IBV_WR_SEND, 4, offset=place)
        end.completion(what)
        end.order("collect", what=what, first=number, sizes=[4], imm=False, written=False, lossy=lossy)
        self.first += 1
        return end.order("pieces", what=what, first=number - len(self.sizes), sizes=self.sizes)
