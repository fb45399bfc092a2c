"""scripts/prepare-data against a server on the loopback: good sets, wrong checksums, transfers that break off.

The addresses in the script cannot be tried here. usage: prepare_data_test.py SCRIPT
"""
import contextlib
import gzip
import hashlib
import http.server
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest
import zipfile
import zlib

SCRIPT = sys.argv.pop(1)
os.environ["PREPARE_DATA_PATIENCE"] = "0"
os.environ["no_proxy"] = "*"


class Server(http.server.ThreadingHTTPServer):
    """Serves files from a dict. cut: bytes after which an answer breaks off, one for each answer, None: not at all."""

    def __init__(self, files, ranges=True):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.ranges, self.cuts, self.errors, self.log = files, ranges, [], [], []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, args=(0.02,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        server, name = self.server, self.path.rsplit("/", 1)[1]
        wanted = self.headers.get("Range")
        server.log.append((name, wanted))
        if server.errors:
            return self.send_error(server.errors.pop(0))
        if name not in server.files:
            return self.send_error(404)
        data, first = server.files[name], 0
        if wanted and server.ranges:
            first = int(wanted[len("bytes=") : -1])
            if first >= len(data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        cut = server.cuts.pop(0) if server.cuts else None
        self.wfile.write(data[first:] if cut is None else data[first : first + cut])
        if cut is not None:
            self.close_connection = True


def load():
    loader = importlib.machinery.SourceFileLoader("prepare_data", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("prepare_data", loader))
    loader.exec_module(module)
    return module


def tar_gz(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in members.items():
            packed.writestr(name, data)
    return out.getvalue()


RATINGS = b"userId,movieId,rating,timestamp\n" + b"".join(b"%d,%d,3.5,7\n" % (i % 9, i) for i in range(5000))


class PrepareData(unittest.TestCase):
    def setUp(self):
        self.module = load()
        folder = tempfile.TemporaryDirectory(prefix="prepare_data_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "data"
        self.output = io.StringIO()

    def run_set(self, name, server, files=None):
        """The exit status of a run in which `files`, if given, stand for the set's."""
        if files is not None:
            self.module.SETS[name] = lambda: files
        with contextlib.redirect_stdout(self.output), contextlib.redirect_stderr(self.output):
            return self.module.main([name, str(self.folder), "--base-url", server.url])

    def file(self, name, data, members, md5=None):
        return self.module.File([f"https://example.org/{name}"], md5 or hashlib.md5(data).hexdigest(), "test", members)

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def small_zip(self):
        data = zipped({"ml-latest-small/README.txt": b"x", "ml-latest-small/ratings.csv": RATINGS})
        return {"ml-latest-small.zip": data}, data

    def test_movielens_by_command(self):
        files, _ = self.small_zip()
        with Server(files) as server:
            command = [sys.executable, SCRIPT, "ml-latest-small", str(self.folder), "--base-url", server.url]
            first = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(first.returncode, 0, first.stderr)
            self.assertIn("no checksum is known", first.stdout)
            self.assertEqual((self.folder / "ratings.csv").read_bytes(), RATINGS)
            self.assertEqual(self.names(), ["ratings.csv"])
            again = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(again.returncode, 0)
            self.assertIn("there already", again.stdout)
            self.assertEqual(len(server.log), 1)

    def test_usage(self):
        for arguments in ([], ["cifar10"], ["cifar11", "x"], ["cifar10", "x", "--base-url"]):
            done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 3, arguments)
        helped = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True)
        self.assertEqual(helped.returncode, 0)
        self.assertIn("usage: scripts/", helped.stdout)
        listed = subprocess.run([sys.executable, SCRIPT, "--list"], capture_output=True, text=True).stdout
        for name in self.module.SETS:
            self.assertIn(f"{name}\t", listed)

    def test_wrong_checksums_leave_nothing(self):
        with Server({"cifar-10-binary.tar.gz": tar_gz({"x": b"y"}), "ml-1m.zip": b"PK"}) as server:
            for name in ("cifar10", "ml-1m"):
                self.assertEqual(self.run_set(name, server), 1)
                self.assertIn("the MD5 is", self.output.getvalue())
                self.assertEqual(self.names(), [])

    def test_a_cut_transfer_goes_on(self):
        files, data = self.small_zip()
        with Server(files) as server:
            server.cuts = [1000, 2500]
            self.assertEqual(self.run_set("ml-latest-small", server), 0, self.output.getvalue())
            self.assertEqual([wanted for _, wanted in server.log], [None, "bytes=1000-", "bytes=3500-"])
        self.assertEqual((self.folder / "ratings.csv").read_bytes(), RATINGS)
        self.assertIn("broke off", self.output.getvalue())

    def test_a_server_without_ranges_starts_again(self):
        files, data = self.small_zip()
        with Server(files, ranges=False) as server:
            server.cuts = [1000]
            self.assertEqual(self.run_set("ml-latest-small", server), 0, self.output.getvalue())
        self.assertEqual((self.folder / "ratings.csv").read_bytes(), RATINGS)

    def test_giving_up_keeps_what_came(self):
        files, data = self.small_zip()
        with Server(files) as server:
            server.cuts = [100] * self.module.TRIES
            self.assertEqual(self.run_set("ml-latest-small", server), 1)
            self.assertIn("call again to go on after 500 bytes", self.output.getvalue())
            self.assertEqual(self.names(), ["ml-latest-small.zip.part"])
            self.assertEqual(self.run_set("ml-latest-small", server), 0, self.output.getvalue())
            self.assertEqual(server.log[-1][1], "bytes=500-")
        self.assertEqual(self.names(), ["ratings.csv"])

    def test_a_complete_part_is_not_fetched_again(self):
        files, data = self.small_zip()
        self.folder.mkdir()
        (self.folder / "ml-latest-small.zip.part").write_bytes(data)
        with Server(files) as server:
            self.assertEqual(self.run_set("ml-latest-small", server), 0, self.output.getvalue())
        self.assertEqual(self.names(), ["ratings.csv"])

    def test_a_part_that_is_too_long_is_thrown_away(self):
        files, data = self.small_zip()
        self.folder.mkdir()
        (self.folder / "ml-latest-small.zip.part").write_bytes(data + b"more")
        with Server(files) as server:
            self.assertEqual(self.run_set("ml-latest-small", server), 0, self.output.getvalue())

    def test_errors_of_servers(self):
        files, data = self.small_zip()
        with Server(files) as server:
            server.errors = [503, 500]
            self.assertEqual(self.run_set("ml-latest-small", server), 0, self.output.getvalue())
            self.assertEqual(self.run_set("ml-1m", server), 1)
            self.assertIn("HTTP 404", self.output.getvalue())
        self.assertEqual(self.run_set("ml-1m", server), 1)  # nobody listens
        self.assertIn("gave up", self.output.getvalue())

    def test_another_set_in_the_folder_is_not_touched(self):
        self.folder.mkdir()
        (self.folder / "ratings.csv").write_bytes(RATINGS)
        with Server({}) as server:
            self.assertEqual(self.run_set("ml-20m", server), 1)
            self.assertIn("5000 lines, expected 20000263", self.output.getvalue())
            self.assertEqual(server.log, [])
        self.assertEqual((self.folder / "ratings.csv").read_bytes(), RATINGS)

    def test_files_in_the_way_are_found_before_anything_happens(self):
        check = self.module.check_lines(rb"\d+", 3)
        data = zipped({"a": b"1\n2\n3\n", "b": b"4\n5\n6\n"})
        members = {"a": ("a.txt", check), "b": ("b.txt", check)}
        self.folder.mkdir()
        (self.folder / "b.txt").write_bytes(b"my own\n")
        with Server({"s.zip": data}) as server:
            for files in (
                [self.file("s.zip", data, members)],
                [self.file("s.zip", data, {"a": members["a"]}), self.file("t.zip", data, {"b": members["b"]})],
            ):
                self.assertEqual(self.run_set("imdb", server, files), 1)
                self.assertIn("b.txt is there already but is not what belongs there", self.output.getvalue())
                self.assertEqual(server.log, [])
                self.assertEqual(self.names(), ["b.txt"])
            self.assertEqual((self.folder / "b.txt").read_bytes(), b"my own\n")
            (self.folder / "b.txt").write_bytes(b"7\n8\n9\n")  # would do, so it stays
            self.assertEqual(self.run_set("imdb", server, [self.file("s.zip", data, members)]), 0)
        self.assertEqual(self.names(), ["a.txt", "b.txt"])
        self.assertEqual((self.folder / "a.txt").read_bytes(), b"1\n2\n3\n")
        self.assertEqual((self.folder / "b.txt").read_bytes(), b"7\n8\n9\n")

    def test_an_archive_that_was_there_stays(self):
        check = self.module.check_lines(rb"\d+", 3)
        good, bad = zipped({"a": b"1\n2\n3\n"}), zipped({"a": b"1\n2\n"})
        member = {"a": ("a.txt", check)}
        self.folder.mkdir()
        archive = self.folder / "s.zip"
        with Server({"s.zip": good}) as server:
            archive.write_bytes(b"something else")
            self.assertEqual(self.run_set("imdb", server, [self.file("s.zip", good, member)]), 1)
            self.assertIn("s.zip is there already, but its MD5 is", self.output.getvalue())
            self.assertEqual(archive.read_bytes(), b"something else")

            archive.write_bytes(bad)
            unpinned = self.module.File(["https://example.org/s.zip"], None, "test", member)
            self.assertEqual(self.run_set("imdb", server, [unpinned]), 1)
            self.assertIn("2 lines, expected 3; it was there already", self.output.getvalue())
            self.assertEqual(archive.read_bytes(), bad)

            archive.write_bytes(good)
            self.assertEqual(self.run_set("imdb", server, [self.file("s.zip", good, member)]), 0)
            self.assertEqual(server.log, [])
        self.assertEqual(self.names(), ["a.txt", "s.zip"])

    def test_damage_inside_a_stream(self):
        check = self.module.check_lines(rb"\d+", None)
        packed = bytearray(gzip.compress(b"".join(b"%d\n" % (i * i) for i in range(5000)), mtime=0))
        packed[10:40] = b"\xff" * 30  # the first block has an invalid type
        with self.assertRaises(zlib.error):
            gzip.decompress(bytes(packed))
        with Server({"t.gz": bytes(packed)}) as server:
            self.assertEqual(self.run_set("mnist", server, [self.file("t.gz", bytes(packed), {"": ("t", check)})]), 1)
            self.assertIn("cannot be unpacked", self.output.getvalue())
            self.assertEqual(self.names(), [])
            (self.folder / "t.tsv.gz").write_bytes(bytes(packed))
            files = [self.file("t.gz", bytes(packed), {"": ("t.tsv.gz", check)})]
            self.assertEqual(self.run_set("mnist", server, files), 1)
            self.assertIn("t.tsv.gz is there already but is not", self.output.getvalue())
            self.assertEqual(self.names(), ["t.tsv.gz"])

    def test_another_server_is_tried(self):
        data = zipped({"wikitext-2/wiki.train.tokens": b" \n = A = \n"})
        with Server({"w.zip": data}) as good, Server({"w.zip": b"<html>moved</html>"}) as bad:
            member = {"wikitext-2/wiki.train.tokens": ("train.txt", self.module.check_lines(rb"[^\0]*", 2))}
            urls = [f"{bad.url}/w.zip", f"{good.url}/w.zip"]
            self.module.SETS["wikitext-2"] = lambda: [
                self.module.File(urls, hashlib.md5(data).hexdigest(), "test", member)
            ]
            with contextlib.redirect_stdout(self.output):
                self.assertEqual(self.module.main(["wikitext-2", str(self.folder)]), 0)
        self.assertIn("trying another server", self.output.getvalue())
        self.assertEqual((self.folder / "train.txt").read_bytes(), b" \n = A = \n")

    def test_archives_that_do_not_hold_the_set(self):
        check = self.module.check_lines(rb"\d+", 3)
        rows = [
            ("a.zip", zipped({"other": b"1\n2\n3\n"}), "holds no a"),
            ("a.zip", zipped({"a": b"1\n2\n"}), "2 lines, expected 3"),
            ("a.zip", zipped({"a": b"1\n2\n3"}), "truncated"),
            ("a.zip", zipped({"a": b"1\n<p>\n3\n"}), "line 2 is not as expected"),
            ("a.zip", zipped({"a": b"1\n2\n3\n"})[:60], "cannot be unpacked"),
            ("a.zip", b"<html></html>", "cannot be unpacked"),
            ("a.tar.gz", tar_gz({"a": b"1\n2\n3\n"})[:40], "cannot be unpacked"),
            ("a.tar.gz", b"<html></html>", "cannot be unpacked"),
        ]
        for name, data, reason in rows:
            with self.subTest(reason), Server({name: data}) as server:
                self.output.seek(0)
                self.output.truncate()
                self.assertEqual(self.run_set("imdb", server, [self.file(name, data, {"a": ("a.txt", check)})]), 1)
                self.assertIn(reason, self.output.getvalue())
                self.assertEqual(self.names(), [])

    def test_names_in_an_archive_do_not_leave_the_folder(self):
        data = tar_gz({"../../escaped": b"x", "a": b"1\n"})
        check = self.module.check_lines(rb"\d+", 1)
        with Server({"a.tar.gz": data}) as server:
            self.assertEqual(self.run_set("imdb", server, [self.file("a.tar.gz", data, {"a": ("a.txt", check)})]), 0)
        self.assertEqual(self.names(), ["a.txt"])
        self.assertEqual([path.name for path in self.folder.parent.iterdir()], ["data"])

    def test_images(self):
        module = self.module
        cifar = bytes([3]) + bytes(3072) + bytes([9]) + bytes(3072)
        module.check_cifar(1, 10, 2)(cifar)
        module.check_cifar(2, 100, 1)(bytes([19, 99]) + bytes(3072))
        for label_bytes, classes, records, data in (
            (1, 10, 1, cifar),
            (1, 9, 2, cifar),
            (2, 99, 1, bytes([19, 99]) + bytes(3072)),
        ):
            with self.assertRaises(module.Refused):
                module.check_cifar(label_bytes, classes, records)(data)
        idx = struct.pack(">HBBII", 0, 8, 2, 2, 3) + bytes(6)
        module.check_idx(2, 3)(idx)
        for data in (idx[:-1], idx + b"x", b"\x1f\x8b" + idx, struct.pack(">HBBII", 0, 8, 2, 3, 2) + bytes(6)):
            with self.assertRaises(module.Refused):
                module.check_idx(2, 3)(data)
        packed = gzip.compress(idx)
        with Server({"t.gz": packed}) as server:
            files = [self.file("t.gz", packed, {"": ("t", module.check_idx(2, 3))})]
            self.assertEqual(self.run_set("mnist", server, files), 0, self.output.getvalue())
        self.assertEqual((self.folder / "t").read_bytes(), idx)

    def test_reviews_become_a_table(self):
        module = self.module
        members = {
            "aclImdb/train/pos/2_10.txt": b"Good\tand\nlong",
            "aclImdb/train/pos/10_7.txt": b"fine",
            "aclImdb/train/neg/0_1.txt": b"bad",
            "aclImdb/train/unsup/0_0.txt": b"no verdict",
            "aclImdb/train/labeledBow.feat": b"numbers",
        }
        data = tar_gz(members)
        pattern = list(module.imdb()[0].members)[0]
        with Server({"aclImdb_v1.tar.gz": data}) as server:
            check = module.check_lines(module.REVIEW, 3)
            files = [self.file("aclImdb_v1.tar.gz", data, {pattern: ("train.tsv.gz", check)})]
            self.assertEqual(self.run_set("imdb", server, files), 0, self.output.getvalue())
        table = gzip.decompress((self.folder / "train.tsv.gz").read_bytes())
        self.assertEqual(table, b"0\t1\t0\tbad\n1\t10\t2\tGood and long\n1\t7\t10\tfine\n")


if __name__ == "__main__":
    unittest.main(verbosity=1)
