# SPDX-License-Identifier: Apache-2.0
# The manifests of examples/scale_out as YAML, and what they say of each other and to the server.
set -u
if ! python3 -c 'import yaml' 2>/dev/null; then
  echo "scale_out_manifests: no PyYAML here: passed over"
  exit 0
fi
python3 - "${GSCHED_SOURCE_DIR:?}/examples/scale_out" "${GSCHED_BIN_DIR:?}/gsched_server" <<'END'
import glob
import json
import os
import subprocess
import sys
import tempfile

import yaml

folder, server = sys.argv[1:3]
failures = 0


def expect(what, good, shown=""):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}: {shown}")


parsed = {}
for path in glob.glob(folder + "/**/*.yaml", recursive=True):
    with open(path) as f:
        parsed[os.path.relpath(path, folder)] = list(yaml.safe_load_all(f))
expect("the manifests", sorted(parsed) == ["envoy/envoy.yaml", "kubernetes/deployment.yaml", "kubernetes/kserve.yaml"], sorted(parsed))
for name in ("kubernetes/deployment.yaml", "kubernetes/kserve.yaml"):
    for each in parsed[name]:
        expect(f"{name}: kind, version and name", all(each.get(k) for k in ("kind", "apiVersion")) and each["metadata"]["name"], each)

deployment = {each["kind"]: each for each in parsed["kubernetes/deployment.yaml"]}
configuration = json.loads(deployment["ConfigMap"]["data"]["server.json"])
pod = deployment["Deployment"]["spec"]["template"]
container = pod["spec"]["containers"][0]
ports = {p["name"]: p["containerPort"] for p in container["ports"]}
expect("ports", all(configuration[k] == f"0.0.0.0:{ports[k]}" for k in ("http", "grpc")), (configuration, ports))
expect("the Service's ports", {p["targetPort"]: p["port"] for p in deployment["Service"]["spec"]["ports"]} == ports)
labels = pod["metadata"]["labels"]
for kind in ("Deployment", "PodDisruptionBudget"):
    expect(f"{kind} selects the pods", deployment[kind]["spec"]["selector"]["matchLabels"] == labels)
expect("the Service selects the pods", deployment["Service"]["spec"]["selector"] == labels)
limits = configuration["limits"]
expect("there is time to drain", pod["spec"]["terminationGracePeriodSeconds"] > limits["notice_s"] + limits["drain_s"])
probe = container["readinessProbe"]
expect("the lead is longer than the probe", limits["notice_s"] > probe["periodSeconds"] * (probe["failureThreshold"] + 1))
runtime, service = parsed["kubernetes/kserve.yaml"]
expect("KServe's runtime", service["spec"]["predictor"]["model"]["runtime"] == runtime["metadata"]["name"] and
       service["spec"]["predictor"]["model"]["modelFormat"]["name"] in [m["name"] for m in runtime["spec"]["supportedModelFormats"]])
cluster = parsed["envoy/envoy.yaml"][0]["static_resources"]["clusters"][0]
expect("Envoy's cluster", len(cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]) == 2)
if os.access(server, os.X_OK):
    with open(folder + "/server.json") as f:
        both = {"ConfigMap": configuration, "server.json": json.load(f)}
    for name, text in both.items():
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(text, f)
            f.flush()
            r = subprocess.run([server, "--config", f.name, "--check"], capture_output=True, text=True, timeout=60)
        expect(f"--check of {name}", r.returncode == 0, r.stderr)
sys.exit(failures > 0)
END
