#!/usr/bin/env python3
"""Talk to a running server with grpcio, through stubs that protoc made from our own .proto files.

    client.py HOST:PORT

The stubs (gubernator_pb2 and its neighbours) are found through PYTHONPATH.  Exit status: 0 when every answer
was right, 1 with the differences otherwise.  Gubernator v2.21.0 itself passes too.
"""

import sys
import threading
import time
import uuid

import grpc
import gubernator_pb2 as pb
import gubernator_pb2_grpc as rpc
import peers_pb2
import peers_pb2_grpc

PATIENCE = 10.0     # seconds for one call; only a server that hangs needs it
HOUR = 3_600_000


class Suite:
    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)
        self.v1 = rpc.V1Stub(self.channel)
        self.peers = peers_pb2_grpc.PeersV1Stub(self.channel)
        self.name = f"python-{uuid.uuid4().hex[:8]}"

    # ---- helpers

    def item(self, key, hits=1, limit=10, **more):
        fields = {"name": self.name, "unique_key": key, "hits": hits, "limit": limit, "duration": HOUR, **more}
        return pb.RateLimitReq(**fields)

    def call(self, *items, **options):
        answer = self.v1.GetRateLimits(pb.GetRateLimitsReq(requests=items), timeout=PATIENCE, **options)
        assert len(answer.responses) == len(items), f"{len(answer.responses)} answers to {len(items)} items"
        return list(answer.responses)

    def expect(self, answer, status, limit, remaining):
        got = (answer.error, answer.status, answer.limit, answer.remaining)
        assert got == ("", status, limit, remaining), f"want {status} {remaining}/{limit}, got {answer}"

    def expect_error(self, code, text, call, *args, **options):
        try:
            answer = call(*args, **options)
        except grpc.RpcError as error:
            got = (error.code(), error.details())
            assert got[0] == code and text in got[1], f"want {code} with {text!r}, got {got}"
        else:
            raise AssertionError(f"want {code}, got an answer: {str(answer)[:200]}")

    # ---- tests

    def test_one_call(self):
        before = int(time.time() * 1000)
        answer, = self.call(self.item("one"))
        self.expect(answer, pb.UNDER_LIMIT, 10, 9)
        assert before + HOUR <= answer.reset_time <= time.time() * 1000 + HOUR, answer
        answer, = self.call(self.item("one", hits=10))
        self.expect(answer, pb.OVER_LIMIT, 10, 9)

    def test_leaky_and_flags(self):
        leaky = {"algorithm": pb.LEAKY_BUCKET, "burst": 20}
        answer, = self.call(self.item("leaky", hits=15, **leaky))
        self.expect(answer, pb.UNDER_LIMIT, 10, 5)
        answer, = self.call(self.item("leaky", hits=6, behavior=pb.DRAIN_OVER_LIMIT | pb.NO_BATCHING, **leaky))
        self.expect(answer, pb.OVER_LIMIT, 10, 0)
        answer, = self.call(self.item("leaky", hits=3, behavior=pb.RESET_REMAINING, **leaky))
        self.expect(answer, pb.UNDER_LIMIT, 10, 17)

    def test_max_wait(self):
        item = {"limit": 60, "algorithm": pb.LEAKY_BUCKET, "burst": 1, "max_wait": 90_000}
        first, second, third = self.call(*[self.item("wait", **item)] * 3)
        self.expect(first, pb.UNDER_LIMIT, 60, 0)
        self.expect(second, pb.SCHEDULED, 60, 0)
        assert 59_000 <= second.retry_after <= 60_000, second
        self.expect(third, pb.OVER_LIMIT, 60, 0)
        assert 119_000 <= third.retry_after <= 120_000, third

    def test_batch_of_1000(self):
        items = [self.item(f"batch-{i}", limit=i + 1) for i in range(1000)]
        for i, answer in enumerate(self.call(*items)):
            self.expect(answer, pb.UNDER_LIMIT, i + 1, i)

    def test_batch_of_1001(self):
        text = "Requests.RateLimits list too large; max size is '1000'"
        self.expect_error(grpc.StatusCode.OUT_OF_RANGE, text, self.call, *[self.item("many", limit=5000)] * 1001)
        answer, = self.call(self.item("many", hits=0, limit=5000))
        self.expect(answer, pb.UNDER_LIMIT, 5000, 5000)

    def test_empty_batch(self):
        assert self.call() == []

    def test_item_errors(self):
        no_key, no_name, number, good = self.call(
            self.item(""), self.item("x", name=""), self.item("a", algorithm=9), self.item("good"))
        assert no_key.error == "field 'unique_key' cannot be empty", no_key
        assert no_name.error == "field 'namespace' cannot be empty", no_name
        assert number.error.endswith("Invalid rate limit algorithm '9'"), number
        self.expect(good, pb.UNDER_LIMIT, 10, 9)

    def test_text_in_any_language(self):
        for _ in range(2):
            answer, = self.call(self.item("schlüssel-鍵-🔑", metadata={"grüße": "здравствуй"}))
        self.expect(answer, pb.UNDER_LIMIT, 10, 8)

    def test_message_too_large(self):
        self.expect_error(grpc.StatusCode.RESOURCE_EXHAUSTED, "received message larger than max (",
                          self.call, self.item("x" * (1 << 20)))
        self.test_empty_batch()

    def test_not_protobuf(self):
        call = self.channel.unary_unary("/pb.gubernator.V1/GetRateLimits")
        self.expect_error(grpc.StatusCode.INTERNAL, "grpc: error unmarshalling request", call, b"\xff\xff",
                          timeout=PATIENCE)

    def test_unknown_method(self):
        call = self.channel.unary_unary("/pb.gubernator.V1/Nope")
        self.expect_error(grpc.StatusCode.UNIMPLEMENTED, "unknown method Nope for service pb.gubernator.V1", call,
                          b"", timeout=PATIENCE)

    def test_deadline_that_has_passed(self):
        request = pb.GetRateLimitsReq(requests=[self.item("deadline")])
        self.expect_error(grpc.StatusCode.DEADLINE_EXCEEDED, "", self.v1.GetRateLimits, request, timeout=-1.0)

    def test_gzip(self):
        answer, = self.call(self.item("gzip"), compression=grpc.Compression.Gzip)
        self.expect(answer, pb.UNDER_LIMIT, 10, 9)

    def test_threads_share_a_limit(self):
        seen, lock = [], threading.Lock()

        def work():
            for _ in range(25):
                answer, = self.call(self.item("threads", limit=200))
                with lock:
                    seen.append((answer.status, answer.remaining))

        threads = [threading.Thread(target=work) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        granted = sorted(left for status, left in seen if status == pb.UNDER_LIMIT)
        assert granted == list(range(200)), f"{len(granted)} granted of 200"
        assert len(seen) == 250

    def test_health(self):
        health = self.v1.HealthCheck(pb.HealthCheckReq(), timeout=PATIENCE)
        assert (health.status, health.message, health.peer_count) == ("healthy", "", 1), health
        assert [peer.grpc_address for peer in health.local_peers] == [health.advertise_address], health
        self.v1.LiveCheck(pb.LiveCheckReq(), timeout=PATIENCE)

    def test_peer_service(self):
        items = [self.item(f"peer-{i}", limit=i + 1) for i in range(1000)]
        request = peers_pb2.GetPeerRateLimitsReq(requests=items)
        answers = self.peers.GetPeerRateLimits(request, timeout=PATIENCE).rate_limits
        assert [answer.remaining for answer in answers] == list(range(1000))
        request.requests.append(items[0])
        self.expect_error(grpc.StatusCode.OUT_OF_RANGE, "'PeerRequest.rate_limits' list too large; max size is '1000'",
                          self.peers.GetPeerRateLimits, request, timeout=PATIENCE)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: client.py HOST:PORT")
    suite = Suite(sys.argv[1])
    names = [name for name in dir(suite) if name.startswith("test_")]
    failed = 0
    for name in names:
        try:
            getattr(suite, name)()
            print(f"ok   {name}")
        except (AssertionError, ValueError, grpc.RpcError) as error:
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {error}")
    print(f"{len(names) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
