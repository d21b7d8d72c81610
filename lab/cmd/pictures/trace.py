"""A shop in Python: `emit` writes an event in a span of its own, `serve` handles what publish sends in one that continues the trace.

It needs psycopg2 and nothing of OpenTelemetry: a span is a few numbers, sent to the collector as OTLP's JSON.
"""
import http.server, json, os, secrets, sys, time, urllib.request


def export(name, kind, trace, span, parent, start):
    spans = [{"name": name, "kind": kind, "traceId": trace, "spanId": span, "parentSpanId": parent,
              "startTimeUnixNano": str(start), "endTimeUnixNano": str(time.time_ns())}]
    about = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop (Python)"}}]}
    body = json.dumps({"resourceSpans": [{"resource": about, "scopeSpans": [{"spans": spans}]}]}).encode()
    urllib.request.urlopen(urllib.request.Request(
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces", body, {"Content-Type": "application/json"})).close()


def emit():
    import psycopg2

    db = psycopg2.connect(os.environ["DATABASE_URL"])
    trace, span, start = secrets.token_hex(16), secrets.token_hex(8), time.time_ns()
    with db, db.cursor() as tx:
        tx.execute("SELECT set_config('outboxctl.traceparent', %s, true)", (f"00-{trace}-{span}-01",))
        tx.execute("SELECT id FROM outbox_emit('order_created', NULL, gen_random_uuid()::text, %s)",
                   (json.dumps({"checkoutGroupId": "00000000-0000-4000-8000-000000000001", "vendorOrderIds": []}),))
    export("checkout", 4, trace, span, "", start)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        start = time.time_ns()
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _, trace, parent, _ = self.headers["traceparent"].split("-")
        assert event["data"]["checkoutGroupId"]
        self.send_response(204)
        self.end_headers()
        export("POST /orders", 2, trace, secrets.token_hex(8), parent, start)

    def log_message(self, *_):
        pass


if sys.argv[1] == "emit":
    emit()
else:
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
