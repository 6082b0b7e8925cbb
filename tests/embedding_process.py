"""A plain sentence-transformers process that answers ``POST /v1/embeddings``; it knows nothing of agentic_r.

Run as ``python embedding_process.py FOLDER``; prints the port it listens on.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from sentence_transformers import SentenceTransformer


def main(folder: str) -> None:
    model = SentenceTransformer(folder, device="cpu", local_files_only=True)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            vectors = model.encode(body["input"])
            data = [{"index": number, "embedding": row.tolist()} for number, row in enumerate(vectors)]
            reply = json.dumps({"object": "list", "data": data}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
