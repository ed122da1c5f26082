/** The Helm chart: what Helm and Kubernetes say of it, and that a real server takes what it makes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { suite, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { parse, stringify } from 'yaml';
import { loadConfig } from '../../src/server/config/load.ts';
import { call } from '../faults/http-client.ts';
import { assertSuccess } from '../integration/served.ts';
import { startObjectStore } from '../world/object-store.ts';
import { startPostgres } from '../world/postgres.ts';
import { startSluice } from '../world/sluice.ts';
import { sluiceCommand } from '../world/sluice-command.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { configOf, ofKind, one, only, replacing, several, sites, whole } from './helm-values.ts';
import { conformance, helm, type KubernetesObject, type Labels, rendered } from './helm-world.ts';

const includes = (labels: Labels, selector: Labels) =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);
const serverOf = (objects: readonly KubernetesObject[]) => {
  const { spec } = only(objects, 'Deployment').spec.template;
  const [container] = spec.containers;
  assert.ok(container);
  return { spec, container };
};

suite('the Helm chart', () => {
  for (const [name, values] of Object.entries(sites)) {
    test(`Helm and Kubernetes accept it for ${name}`, async () => {
      assertSuccess(await helm(['lint', '--strict'], values));
      const objects = await rendered(values);
      // The operator of Prometheus brings the other kind.
      const result = await conformance(objects, ['ServiceMonitor']);
      assertSuccess(result);
      const skipped = name === 'whole' ? 1 : 0;
      assert.match(
        result.stdout,
        new RegExp(
          `Valid: ${objects.length - skipped}, Invalid: 0, Errors: 0, Skipped: ${skipped}`,
        ),
      );
    });
  }

  test('the job that alert rules know is that of any release', async () => {
    const objects = await rendered(whole);
    const { jobLabel } = only(objects, 'ServiceMonitor').spec;
    assert.ok(jobLabel);
    const jobs = ofKind(objects, 'Service').map(({ metadata }) => metadata.labels?.[jobLabel]);
    const rules = readFileSync('deploy/prometheus/alerts.yaml', 'utf8');
    const known = [...rules.matchAll(/job="([^"]*)"/g)].map(([, job]) => job);
    assert.ok(known.length > 0);
    assert.deepEqual(new Set(jobs), new Set(known));
  });

  test('replicas reach each other by IPv6 as well', async () => {
    for (const [ipFamily, address, listen] of [
      ['IPv4', '10.1.2.3', undefined],
      ['IPv6', 'fd00::3', '[::]:9090'],
    ] as const) {
      const { env } = serverOf(await rendered({ ...several, ipFamily })).container;
      const variable = (wanted: string) => env.find(({ name }) => name === wanted)?.value;
      const url = variable('SLUICE_REPLICA_ADDRESS')?.replace('$(POD_IP)', address);
      assert.equal(new URL(url ?? '').port, '9090');
      assert.equal(variable('SLUICE_LISTEN'), listen);
    }
  });

  test('a field that Kubernetes does not know is found', async () => {
    const objects = await rendered(one);
    const { spec } = only(objects, 'Deployment').spec.template;
    Object.assign(spec, { terminationGraceSeconds: 1 });
    const { code, stdout } = await conformance(objects);
    assert.equal(code, 1);
    assert.match(stdout, /terminationGraceSeconds/);
  });

  test('values that do not fit together are refused with what to do', async () => {
    const { database: _, ...noDatabase } = several;
    const { keys: __, ...noKeys } = several;
    for (const [values, message] of [
      [{ ...one, image: {} }, /image\.repository is empty: build the image/],
      [{ ...one, url: '' }, /url is empty: set it to the public address/],
      [{ ...one, url: 'containers.example.org' }, /url/],
      [{ ...one, replicas: 2 }, /several replicas need database\.existingSecret and content/],
      [{ ...one, autoscaling: { enabled: true } }, /several replicas need/],
      [noDatabase, /content names a bucket, but database\.existingSecret is empty/],
      [{ ...several, content: '' }, /existingSecret is set, but content is empty/],
      [noKeys, /keys\.existingSecret is empty: create the secret/],
      [{ ...one, buildkit: { enabled: true } }, /buildkit\.tls\.server and .* are required/],
      [{ ...one, replicaCount: 3 }, /replicaCount/],
      [{ ...several, drainTime: '30s' }, /drainTime is longer than 25s/],
      [
        { ...one, service: { externalTrafficPolicy: 'Local' } },
        /externalTrafficPolicy requires service\.type/,
      ],
      [{ ...one, drainTime: '2m' }, /terminationGracePeriodSeconds is too short/],
      [{ ...one, drainTime: '120000ms' }, /terminationGracePeriodSeconds is too short/],
      [{ ...several, terminationGracePeriodSeconds: 59 }, /is too short/],
      [
        { ...several, autoscaling: { enabled: true, minReplicas: 7 } },
        /minReplicas is larger than autoscaling\.maxReplicas/,
      ],
      [{ ...whole, ipFamily: 'IPv6' }, /buildkit\.enabled requires pods with IPv4/],
      [{ ...whole, config: { buildkit: ['tcp://one:1234'] } }, /config\.buildkit would be lost/],
      [
        { ...whole, buildkit: { ...whole.buildkit, cache: { size: '1Ti' } } },
        /set buildkit\.cache/,
      ],
      [
        { ...replacing, buildkit: { ...replacing.buildkit, builds: 2 } },
        /a worker is for one build/,
      ],
      [{ ...replacing, buildkit: { ...replacing.buildkit, isolation: 'none' } }, /isolation/],
      // Everybody who may read a ConfigMap would see it.
      [{ ...one, config: { accounts: { admin: 'secret' } } }, /config/],
    ] as const) {
      await assert.rejects(rendered(values), message);
    }
  });

  test('everything selects what the chart makes', async () => {
    const objects = await rendered(whole);
    const pods = [...ofKind(objects, 'Deployment'), ...ofKind(objects, 'StatefulSet')];
    const labels = pods.map(({ spec }) => spec.template.metadata.labels);
    for (const { spec } of pods) {
      assert.ok(includes(spec.template.metadata.labels, spec.selector.matchLabels ?? {}));
    }
    const selectors = [
      ...ofKind(objects, 'Service').map(({ spec }) => spec.selector),
      ...ofKind(objects, 'NetworkPolicy').map(({ spec }) => spec.podSelector?.matchLabels),
      only(objects, 'PodDisruptionBudget').spec.selector.matchLabels,
    ];
    for (const selector of selectors) {
      assert.ok(selector);
      // Each selects the servers or the workers, never both.
      assert.equal(labels.filter(of => includes(of, selector)).length, 1, JSON.stringify(selector));
    }
    const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    assert.equal(new Set(names).size, names.length);
  });

  test('a policy admits the replicas and whom it lists, and nobody else', async () => {
    const { from } = whole.networkPolicy;
    for (const [values, listed] of [
      [one, []],
      [several, []],
      [{ ...one, networkPolicy: { from: [] } }, []],
      [whole, from],
    ] as const) {
      const objects = await rendered(values);
      const { matchLabels } = only(objects, 'Deployment').spec.selector;
      const [policy] = ofKind(objects, 'NetworkPolicy').filter(({ spec }) =>
        isDeepStrictEqual(spec.podSelector, { matchLabels }),
      );
      assert.deepEqual(
        policy?.spec.ingress?.map(rule => rule.from),
        [[{ podSelector: { matchLabels } }, ...listed]],
      );
    }
    await assert.rejects(rendered({ ...one, networkPolicy: { from: [{}] } }), /from/);
    const open = await rendered({ ...one, networkPolicy: { enabled: false } });
    assert.deepEqual(ofKind(open, 'NetworkPolicy'), []);
  });

  test('a server answers to the names of its service', async () => {
    const names = ['team-sluice', 'team-sluice.tools', 'team-sluice.tools.svc'];
    for (const hosts of [[], ['10.0.0.0/16']]) {
      const objects = await rendered({
        ...one,
        ...(hosts.length > 0 ? { config: { hosts } } : {}),
      });
      assert.equal(only(objects, 'Service').metadata.name, 'team-sluice');
      const { hosts: found } = parse(configOf(objects)) as { hosts: string[] };
      assert.deepEqual(found, [...names, `${names[2]}.cluster.local`, ...hosts]);
    }
  });

  test('a server has no right of the restricted profile too many', async () => {
    for (const values of Object.values(sites)) {
      const { spec, container } = serverOf(await rendered(values));
      assert.deepEqual(container.securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      assert.equal(spec.securityContext.runAsNonRoot, true);
      assert.deepEqual(spec.securityContext.seccompProfile, { type: 'RuntimeDefault' });
      assert.equal(spec.automountServiceAccountToken, values === replacing);
      assert.equal(spec.enableServiceLinks, false);
      const kinds = ['configMap', 'emptyDir', 'ephemeral', 'persistentVolumeClaim', 'secret'];
      for (const { name, ...source } of spec.volumes) {
        assert.ok(kinds.includes(Object.keys(source)[0] ?? ''), String(name));
      }
      const volumes = spec.volumes.map(({ name }) => name);
      assert.deepEqual(container.volumeMounts.map(({ name }) => name).sort(), volumes.sort());
    }
  });

  test('replicas leave a node that is lost, and spread over the nodes with each update', async () => {
    const specOf = async (values: object) => serverOf(await rendered(values)).spec;
    const lost = (seconds: number) =>
      ['unreachable', 'not-ready'].map(state => ({
        ...{ key: `node.kubernetes.io/${state}`, operator: 'Exists', effect: 'NoExecute' },
        tolerationSeconds: seconds,
      }));
    const { tolerations, topologySpreadConstraints } = await specOf(several);
    assert.deepEqual(tolerations, lost(30));
    assert.deepEqual(topologySpreadConstraints?.[0]?.matchLabelKeys, ['pod-template-hash']);
    const more = await specOf({ ...whole, nodeLossSeconds: 90 });
    assert.deepEqual(more.tolerations, [...lost(90), ...whole.tolerations]);
    // Its volume stays with it.
    assert.equal((await specOf(one)).tolerations, undefined);
  });

  test('replicas stay in the service without their database, and a server alone with a full disk', async () => {
    for (const [values, purpose] of [
      [one, 'pulls'],
      [several, 'traffic'],
    ] as const) {
      const { readinessProbe } = serverOf(await rendered(values)).container;
      assert.equal(readinessProbe.httpGet?.path, `/readyz?for=${purpose}`);
    }
  });

  test('the account of the servers is not that of workers, which keep less than their volume has', async () => {
    const objects = await rendered(whole);
    const { metadata } = only(objects, 'ServiceAccount');
    assert.equal(serverOf(objects).spec.serviceAccountName, metadata.name);
    assert.equal(only(objects, 'StatefulSet').spec.template.spec.serviceAccountName, undefined);
    const texts = ofKind(objects, 'ConfigMap').map(({ data }) => data?.['buildkitd.toml'] ?? '');
    const [, kept] = /maxUsedSpace = "(\d+)MB"/.exec(texts.join('')) ?? [];
    assert.ok(Number(kept) > 0.7 * 20 * 1074 && Number(kept) < 0.9 * 20 * 1074, kept);
  });

  test('Kubernetes waits for the end of a server, and its settings exist', async () => {
    const known = readFileSync('docs/configuration.md', 'utf8');
    for (const values of Object.values(sites)) {
      const objects = await rendered(values);
      const { spec, container } = serverOf(objects);
      for (const { name } of container.env) {
        assert.ok(name === 'POD_IP' || /^AWS_|^SLUICE_CONFIG$/.test(name) || known.includes(name));
      }
      const { stopDelay, drainTime } = parse(configOf(objects)) as Record<string, string>;
      const seconds = [stopDelay, drainTime].map(text => Number.parseInt(text ?? '', 10));
      // 20 s for builds, as in the unit for systemd.
      const needed = seconds.reduce((sum, each) => sum + each, 20);
      assert.ok(spec.terminationGracePeriodSeconds >= needed, `${needed}`);
    }
  });

  test('a bare off in the values means what it means in the configuration file', async () => {
    await using directory = await makeTempDir('helm-words');
    const config = {
      access: { requests: 'off', builds: 'off', pulls: 'off' },
      limits: { pulls: { anonymous: 'off' } },
      anonymous: { maxBytes: 'off', maxFiles: 'off' },
      buildkit: 'off',
      pages: 'off',
    };
    assert.match(stringify(config), /builds: off\n/);
    const text = configOf(await rendered({ ...one, config }));
    assert.match(text, /builds: false\n/, 'Helm reads YAML 1.1');
    const file = directory.join('sluice.yaml');
    await writeFile(file, text);
    const { config: read } = loadConfig({ SLUICE_CONFIG: file });
    assert.deepEqual(read.access, config.access);
    assert.deepEqual([read.buildkit, read.pages], [['off'], 'off']);
    const { maxBytes, maxFiles } = read.anonymous;
    assert.deepEqual([read.limits.pulls.anonymous, maxBytes, maxFiles], Array(3).fill(undefined));
  });

  test('its version is that of Sluice', () => {
    const { version, appVersion } = parse(readFileSync('deploy/helm/Chart.yaml', 'utf8'));
    const { version: own } = JSON.parse(readFileSync('package.json', 'utf8'));
    assert.deepEqual([version, appVersion], [own, own]);
  });

  test('a real server runs with its configuration', { timeout: 300_000 }, async () => {
    await using postgres = await startPostgres();
    await using store = await startObjectStore();
    await using directory = await makeTempDir('helm-server');
    const objects = await rendered({
      ...several,
      content: `s3://${await store.createBucket()}/site`,
      ingress: { enabled: true },
    });
    const { container } = serverOf(objects);
    const keys = directory.join('keys');
    await mkdir(keys);
    for (const name of ['secrets.key', 'registry-token.key']) {
      await writeFile(`${keys}/${name}`, Buffer.alloc(32, name), { mode: 0o600 });
    }
    const ofPod = ['SLUICE_REPLICA_ADDRESS', 'SLUICE_DATA'];
    // What the pod would take from secrets, and what differs outside of a pod.
    const replaced: Record<string, string> = {
      SLUICE_CONFIG: directory.join('sluice.yaml'),
      SLUICE_DATABASE: await postgres.createDatabase(),
      SLUICE_REPLICA_KEYS: keys,
      SLUICE_ACCOUNTS: 'admin:secret',
    };
    await writeFile(replaced.SLUICE_CONFIG ?? '', configOf(objects));
    const env = Object.fromEntries(
      container.env
        .filter(({ name }) => name.startsWith('SLUICE_') && !ofPod.includes(name))
        .map(({ name, value }) => [name, replaced[name] ?? value ?? '']),
    );
    assertSuccess(await sluiceCommand(['config', '--config', replaced.SLUICE_CONFIG ?? ''], env));
    const { SLUICE_CONFIG: _, ...settings } = env;
    await using sluice = await startSluice({
      config: parse(configOf(objects)) as object,
      env: {
        ...settings,
        ...store.env,
        SLUICE_S3_ENDPOINT: store.url,
        SLUICE_S3_REGION: 'us-east-1',
        SLUICE_S3_PATH_STYLE: 'true',
        SLUICE_REPLICA_ADDRESS: 'http://127.0.0.1:9090',
      },
    });
    for (const probe of [container.readinessProbe, container.livenessProbe]) {
      assert.equal((await sluice.fetch(probe.httpGet?.path ?? '')).status, 200);
    }
    const inside = { headers: { host: only(objects, 'Service').metadata.name } };
    assert.equal((await call(`${sluice.url}/healthz`, inside)).status, 200);
    assert.equal(container.ports[0]?.containerPort, 9090);
    assert.match(readFileSync('Dockerfile', 'utf8'), /SLUICE_LISTEN=0\.0\.0\.0:9090/);
    assert.ok(stringify(parse(configOf(objects))).includes('trustedProxies: 1'));
  });
});
