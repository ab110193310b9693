// Validates manifests of the Gateway API and the Prometheus operator. Reads lists of them by line, and answers each with a
// line of complaints. Argument: the folder of node_modules with the schemas.
import {createInterface} from "node:readline";

const MODULES = {
  "gateway.networking.k8s.io": "gateway-api/_schemas/IoK8sSigsGatewayApiApisV1",
  "monitoring.coreos.com": "prometheus-operator/_schemas/ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1",
};

// The validators let unknown fields pass: a field that they never read is one.
const read = new Map();
const views = new Map();

function view(value) {
  if (value === null || typeof value !== "object") return value;
  if (!views.has(value)) {
    const names = new Set();
    read.set(value, names);
    views.set(value, new Proxy(value, {get: (target, name) => (names.add(name), view(target[name]))}));
  }
  return views.get(value);
}

function unknown(value, place) {
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    read.get(value)?.has(name) ? unknown(inner, `${place}/${name}`) : [`${place}/${name} is no field`]);
}

for await (const line of createInterface({input: process.stdin})) {
  const found = [];
  for (const manifest of JSON.parse(line)) {
    const module = MODULES[manifest.apiVersion.split("/")[0]];
    const {validate} = await import(`${process.argv[2]}/@kubernetes-models/${module}${manifest.kind}.js`);
    const errors = validate(view(manifest)) ? [] : validate.errors.map(
      (error) => `${error.instancePath} ${error.keyword} ${JSON.stringify(error.params)}`);
    found.push(...[...errors, ...unknown(manifest, "")].map((what) => `${manifest.kind} ${what}`));
  }
  console.log(JSON.stringify(found));
}
