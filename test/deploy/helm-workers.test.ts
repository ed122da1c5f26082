/** The BuildKit workers of the Helm chart. */
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { chmod, mkdir, readFile, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { parse } from 'yaml';
import { assertSuccess } from '../integration/served.ts';
import { runProgram } from '../world/program.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { requireBusybox } from '../world/tools.ts';
import { configOf, ofKind, only, replacing, whole } from './helm-values.ts';
import { type KubernetesObject, rendered } from './helm-world.ts';

/** The pods of workers, and the container of BuildKit. */
const workersOf = (objects: readonly KubernetesObject[]) => {
  const { metadata, spec } = only(objects, 'StatefulSet').spec.template;
  const [worker] = spec.containers;
  assert.ok(worker);
  return { labels: metadata.labels, spec, worker };
};
const wipeArgument = (kind: string) => `--oci-worker-labels=sluice.wipe=${kind}`;
const noSandbox = '--oci-worker-no-process-sandbox';

suite('the workers of the Helm chart', () => {
  test('the directory of a worker does not hand the setgid bit of its volume on to images', async () => {
    const { spec } = only(await rendered(whole), 'StatefulSet').spec.template;
    const [[prepares, ...more], [worker]] = [spec.initContainers ?? [], spec.containers];
    assert.ok(prepares && worker && more.length === 0);
    const root = worker.args?.find(arg => arg.startsWith('--root='))?.replace('--root=', '') ?? '';
    const volume = dirname(root);
    for (const { image, volumeMounts, securityContext } of [prepares, worker]) {
      assert.equal(image, worker.image);
      assert.equal(volumeMounts.find(({ name }) => name === 'cache')?.mountPath, volume);
      const { runAsUser, runAsGroup, runAsNonRoot } = securityContext;
      assert.deepEqual([runAsUser, runAsGroup, runAsNonRoot], [1000, 1000, true]);
    }
    await using directory = await makeTempDir('setgid');
    await chmod(directory.path, 0o2775);
    const own = (path: string) => path.replace(volume, directory.path);
    const command = prepares.command.map(own);
    // As often as the pod starts.
    for (let start = 0; start < 2; start += 1) {
      assertSuccess(await runProgram(command, { env: { PATH: process.env.PATH } }));
      await mkdir(join(own(root), `made-${start}`));
    }
    const modes = [directory.path, own(root), join(own(root), 'made-1')].map(
      path => statSync(path).mode & 0o2000,
    );
    assert.deepEqual(modes, [0o2000, 0, 0]);
  });

  test('a long name of a release leaves room for what Kubernetes adds', async () => {
    for (const release of ['r'.repeat(50), `${'r'.repeat(42)}-${'s'.repeat(9)}`]) {
      const objects = await rendered(whole, release);
      const workers = only(objects, 'StatefulSet').metadata.name;
      assert.ok(workers.length <= 52, workers);
      assert.match(workers, /[a-z]-buildkit$/);
      for (const { kind, metadata } of objects) {
        assert.ok(metadata.name.length <= 63, `${kind} ${metadata.name}`);
      }
      const config = parse(configOf(objects)) as { buildkit: string[] };
      assert.deepEqual(config.buildkit, [`dns+tcp://${workers}.tools.svc:1234`]);
    }
  });

  test('the volumes of workers have the fields that Kubernetes would add', async () => {
    const [claim] = only(await rendered(whole), 'StatefulSet').spec.volumeClaimTemplates ?? [];
    assert.deepEqual([claim?.apiVersion, claim?.kind], ['v1', 'PersistentVolumeClaim']);
  });

  test('a worker takes orders from certificates only', async () => {
    const [worker] = only(await rendered(whole), 'StatefulSet').spec.template.spec.containers;
    for (const file of ['tlscacert', 'tlscert', 'tlskey']) {
      assert.ok(
        worker?.args?.some(arg => arg.startsWith(`--${file}=/certificates/`)),
        file,
      );
    }
    assert.equal(worker?.securityContext.runAsNonRoot, true);
  });

  test('a worker has the file of a private authority that its configuration names, and its variables', async () => {
    const objects = await rendered(whole);
    const { volumes, containers } = only(objects, 'StatefulSet').spec.template.spec;
    const texts = ofKind(objects, 'ConfigMap').map(({ data }) => data?.['buildkitd.toml'] ?? '');
    const [, folder, file] = /ca = \["(\/.*)\/(.*?)"\]/.exec(texts.join('')) ?? [];
    assert.equal(file, 'ca.pem');
    const mount = containers[0]?.volumeMounts.find(({ mountPath }) => mountPath === folder);
    assert.deepEqual(
      volumes.find(({ name }) => name === mount?.name),
      whole.buildkit.extraVolumes[0],
    );
    assert.deepEqual(containers[0]?.env, whole.buildkit.env);
  });

  test('steps have no socket that takes traces: workers have the runc of the builder in Docker', async () => {
    for (const values of [replacing, whole]) {
      const objects = await rendered(values);
      const { spec, worker } = workersOf(objects);
      const data = ofKind(objects, 'ConfigMap').find(one => one.data?.runc !== undefined)?.data;
      assert.equal(data?.runc?.trim(), (await readFile('builder/runc.sh', 'utf8')).trim());
      const mount = worker.volumeMounts.find(({ name }) => name === 'runc');
      assert.ok(data?.['buildkitd.toml']?.includes(`binary = "${mount?.mountPath}"`));
      const volume = spec.volumes.find(({ name }) => name === 'runc') as {
        configMap?: { defaultMode?: number };
      };
      assert.equal(volume.configMap?.defaultMode, 0o555);
    }
  });

  test('steps that see all processes of their pod share it with no other build', async () => {
    const objects = await rendered(replacing);
    const { labels, spec, worker } = workersOf(objects);
    assert.ok(worker.args?.includes(noSandbox));
    assert.ok(worker.args?.includes(wipeArgument('pod-each')));
    assert.equal(labels['sluice.wipe'], 'pod-each');
    assert.equal(spec.hostUsers, undefined);
    // No build finds the state of another one.
    assert.equal(only(objects, 'StatefulSet').spec.volumeClaimTemplates, undefined);
    const state = spec.volumes.find(({ name }) => name === 'cache');
    assert.deepEqual(state?.emptyDir, { sizeLimit: '20Gi' });
    const { buildkit, buildkitShares } = parse(configOf(objects));
    assert.deepEqual(buildkitShares, { [buildkit[0]]: { builds: 1 } });
    const cache = { size: '20Gi', storageClass: 'fast' };
    const onVolumes = { ...replacing, buildkit: { ...replacing.buildkit, cache } };
    const { volumes } = workersOf(await rendered(onVolumes)).spec;
    assert.ok(volumes.find(({ name }) => name === 'cache')?.ephemeral);
  });

  test('steps that see only their own processes run as users of their pod', async () => {
    const objects = await rendered(whole);
    const { labels, spec, worker } = workersOf(objects);
    assert.ok(!worker.args?.includes(noSandbox));
    assert.ok(worker.args?.includes(wipeArgument('prune')));
    assert.equal(labels['sluice.wipe'], 'prune');
    assert.equal(spec.hostUsers, false);
    assert.equal(worker.securityContext.procMount, 'Unmasked');
    const texts = ofKind(objects, 'ConfigMap').map(({ data }) => data?.users ?? '');
    const ranges = texts
      .join('')
      .trim()
      .split('\n')
      .map(line => line.split(':').map(Number));
    // All 65536 of a pod, but for that of BuildKit, which is root in steps.
    const users = ranges.flatMap(([, first = 0, count = 0]) =>
      Array.from({ length: count }, (_, index) => first + index),
    );
    assert.equal(users.length, 65_534);
    assert.deepEqual([users[0], users.at(-1), users.includes(1000)], [1, 65_535, false]);
    for (const file of ['/etc/subuid', '/etc/subgid']) {
      assert.ok(worker.volumeMounts.some(({ mountPath }) => mountPath === file));
    }
    await assert.rejects(rendered(whole, 'team', '1.32.4'), /requires Kubernetes 1\.33/);
    assert.ok(await rendered(replacing, 'team', '1.30.0'));
  });

  test('only servers that replace workers may talk to Kubernetes, about these workers', async () => {
    const objects = await rendered(replacing);
    const { metadata, rules } = only(objects, 'Role');
    const pods = { apiGroups: [''], resources: ['pods'] };
    assert.deepEqual(rules, [
      { ...pods, verbs: ['list'] },
      {
        ...pods,
        verbs: ['get', 'delete'],
        // As a StatefulSet names its pods.
        resourceNames: [0, 1, 2].map(
          index => `${only(objects, 'StatefulSet').metadata.name}-${index}`,
        ),
      },
    ]);
    const account = only(objects, 'ServiceAccount').metadata.name;
    const { spec } = only(objects, 'Deployment').spec.template;
    assert.equal(spec.serviceAccountName, account);
    assert.equal(metadata.name, only(objects, 'RoleBinding').metadata.name);
    assert.deepEqual(only(objects, 'RoleBinding').subjects, [
      { kind: 'ServiceAccount', name: account, namespace: 'tools' },
    ]);
    assert.deepEqual(ofKind(await rendered(whole), 'Role'), []);
    // Without a name, Kubernetes would keep the former account.
    const { serviceAccount: _, ...without } = whole;
    const server = only(await rendered(without), 'Deployment').spec.template.spec;
    assert.equal(server.serviceAccountName, 'default');
    // An account of the operator's own gets the right, too.
    const own = { ...replacing, serviceAccount: { name: 'builders' } };
    const [subject] = only(await rendered(own), 'RoleBinding').subjects ?? [];
    assert.equal(subject?.name, 'builders');
  });

  test('a worker has no token, and its limits hold for all builds in it', async () => {
    await using directory = await makeTempDir('worker-shell');
    const busybox = directory.join('busybox');
    await symlink(requireBusybox('amd64'), busybox);
    for (const values of [whole, replacing]) {
      const { spec, worker } = workersOf(await rendered(values));
      assert.equal(spec.automountServiceAccountToken, false);
      assert.equal(spec.serviceAccountName, undefined);
      assert.deepEqual(worker.resources.limits, { cpu: '4', memory: '8Gi' });
      assert.equal(worker.securityContext.readOnlyRootFilesystem, true);
      for (const { name, emptyDir } of spec.volumes) {
        if (emptyDir) assert.ok((emptyDir as { sizeLimit?: string }).sizeLimit, String(name));
      }
      const [shell, options, script = '', ...more] = worker.command ?? [];
      assert.deepEqual([shell, options, more], ['sh', '-ec', ['8192']]);
      const prints = script.replace('exec rootlesskit buildkitd "$@"', 'ulimit -u; echo "$@"');
      assert.notEqual(prints, script);
      const { stdout } = await runProgram(
        // The shell of the image.
        [busybox, 'sh', options ?? '', prints, '512', '--root=/state'],
        { env: {} },
      );
      assert.equal(stdout, '512\n--root=/state\n');
    }
  });
});
