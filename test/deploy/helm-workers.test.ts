/** The BuildKit workers of the Helm chart. */
import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { chmod, mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import { parse } from 'yaml';
import { assertSuccess } from '../integration/served.ts';
import { runProgram } from '../world/program.ts';
import { makeTempDir } from '../world/temp-dir.ts';
import { configOf, ofKind, only, whole } from './helm-values.ts';
import { rendered } from './helm-world.ts';

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
});
