/** Clients without a daemon push to hosted repositories and pull back the same bytes. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { type Pushed, pushCorpus } from '../corpus/corpus.ts';
import { type Client, clientsOf, copy, login, storeLogin } from '../world/clients.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { openRoot, type Root } from '../world/root.ts';
import { type Sluice, startSluice } from '../world/sluice.ts';
import { type Suite, suites } from '../world/tools.ts';
import { accounts, ci, inspectHosted, mountsInto, pullBack } from './hosted.ts';
import { assertSuccess } from './served.ts';

// An image in each family, and several platforms in each.
const images = ['cfg:full', 'cfg:full-docker', 'multi:index', 'multi:list'];
// These clients unpack an image and push a new one.
const rewriting: readonly Client[] = ['podman', 'buildah'];
const noteType = 'application/vnd.example.note';
const sealType = 'application/vnd.example.seal';

suite('clients and hosted repositories', { concurrency: 2 }, () => {
  let registry: Registry;
  let sluice: Sluice;
  let pushed: Map<string, Pushed>;

  before(async () => {
    registry = await startRegistry();
    pushed = await pushCorpus(registry, images);
    sluice = await startSluice({ config: { accounts } });
  });
  after(async () => {
    await sluice?.stop();
    await registry?.stop();
  });

  const sourceOf = (name: string): Pushed => {
    const image = pushed.get(name);
    assert.ok(image, name);
    return image;
  };
  const openLoggedIn = async (name: Suite): Promise<Root> => {
    const root = await openRoot(name);
    await storeLogin(root, sluice.host, ci);
    return root;
  };

  for (const name of suites) {
    for (const client of clientsOf(name)) {
      test(`${client} of ${name} pushes and pulls back`, async () => {
        await using root = await openRoot(name);
        assertSuccess(await login(root, client, sluice.host, ci), client);
        for (const image of images) {
          const source = sourceOf(image);
          const repository = `team/${client}-${name}/${source.tag}`;
          const reference = `${sluice.host}/${repository}:1`;
          assertSuccess(await copy(root, client, source.reference, reference), image);
          const hosted = await inspectHosted(sluice, repository, '1');
          if (!rewriting.includes(client)) {
            assert.equal(hosted.digest, source.digest, image);
            assert.equal(hosted.mediaType, source.mediaType, image);
          }
          await pullBack(root, client, reference, hosted);
        }
      });
    }

    test(`podman and skopeo of ${name} mount layers of another repository`, async () => {
      await using root = await openLoggedIn(name);
      for (const client of ['podman', 'skopeo'] as const) {
        const source = sourceOf('cfg:full').reference;
        const one = `team/${client}-${name}-one`;
        const two = `team/${client}-${name}-two`;
        assertSuccess(await copy(root, client, source, `${sluice.host}/${one}:1`));
        assertSuccess(
          await copy(root, client, `${sluice.host}/${one}:1`, `${sluice.host}/${two}:1`),
        );
        const { layers } = await inspectHosted(sluice, two, '1');
        const mounts = await mountsInto(sluice, two);
        assert.ok(mounts.length >= layers.length, `${client}: ${mounts.length} mounts`);
      }
    });
  }

  test('crane and oras of forky mount layers of another repository', async () => {
    await using root = await openLoggedIn('forky');
    for (const client of ['crane', 'oras'] as const) {
      const source = sourceOf('multi:index').reference;
      const one = `${sluice.host}/team/${client}-one:1`;
      assertSuccess(await copy(root, client, source, one));
      assertSuccess(await copy(root, client, one, `${sluice.host}/team/${client}-two:1`));
      const mounts = await mountsInto(sluice, `team/${client}-two`);
      // Two configurations and two layers.
      assert.equal(mounts.length, 4, client);
    }
  });

  test('crane and oras tag an image, and every client that can list tags lists them', async () => {
    await using root = await openLoggedIn('forky');
    const repository = `${sluice.host}/team/tags`;
    assertSuccess(await copy(root, 'skopeo', sourceOf('cfg:full').reference, `${repository}:b`));
    assertSuccess(await root.exec(['crane', 'tag', '--insecure', `${repository}:b`, 'c']));
    assertSuccess(await root.exec(['oras', 'tag', '--plain-http', `${repository}:c`, 'a', 'D']));
    const lists = [
      ['crane', 'ls', '--insecure', repository],
      ['oras', 'repo', 'tags', '--plain-http', repository],
      ['skopeo', 'list-tags', '--tls-verify=false', `docker://${repository}`],
    ];
    for (const list of lists) {
      const printed = assertSuccess(await root.exec(list));
      const tags = /\[([^\]]*)\]/.exec(printed)?.[1] ?? printed;
      assert.deepEqual(tags.match(/\w+/g), ['D', 'a', 'b', 'c'], printed);
    }
  });

  for (const name of ['trixie', 'forky'] as const) {
    test(`oras of ${name} pushes artifacts and finds referrers`, async () => {
      await using root = await openLoggedIn(name);
      const oras = (...args: string[]) =>
        root.exec(['sh', '-c', 'cd /tmp && exec oras "$@"', 'sh', ...args]);
      const artifact = `${sluice.host}/team/artifact-${name}:1`;
      const typed = ['--plain-http', '--artifact-type'];
      for (const [file, text] of [
        ['note.txt', 'a note\n'],
        ['seal.txt', 'a seal\n'],
      ] as const) {
        await writeFile(join(root.directory, 'tmp', file), text);
      }
      assertSuccess(await oras('push', ...typed, noteType, artifact, 'note.txt:text/plain'));
      const attach = ['attach', ...typed, sealType, artifact, 'seal.txt:text/plain'];
      const attached = assertSuccess(await oras(...attach));
      const digest = /^Digest: (\S+)$/m.exec(attached)?.[1];
      const seal = `${artifact.slice(0, -2)}@${digest}`;

      const discover = async (...filter: string[]) =>
        assertSuccess(await oras('discover', '--plain-http', '--format=json', ...filter, artifact));
      const all = await discover();
      assert.ok(all.includes(`"reference": "${seal}"`), all);
      assert.ok(all.includes(`"artifactType": "${sealType}"`), all);
      assert.equal(await discover('--artifact-type', sealType), all);
      assert.ok(!(await discover('--artifact-type', noteType)).includes(seal));

      for (const [reference, file, text] of [
        [artifact, 'note.txt', 'a note\n'],
        [seal, 'seal.txt', 'a seal\n'],
      ] as const) {
        assertSuccess(await oras('pull', '--plain-http', '-o', '/tmp/pulled', reference));
        assert.equal(await readFile(join(root.directory, 'tmp/pulled', file), 'utf8'), text);
      }
    });

    test(`cosign of ${name} signs an image and finds its signature`, async () => {
      await using root = await openLoggedIn(name);
      const image = `${sluice.host}/team/signed-${name}:1`;
      assertSuccess(await copy(root, 'cosign', sourceOf('cfg:full').reference, image));
      const cosign = (...args: string[]) => root.exec(['cosign', ...args], { env: signing });
      assertSuccess(await cosign('generate-key-pair', '--output-key-prefix', '/tmp/key'));
      // Nothing here may contact the public services of cosign.
      const { digest } = await inspectHosted(sluice, `team/signed-${name}`, '1');
      const byDigest = `${image.slice(0, -2)}@${digest}`;
      const sign = ['sign', '--yes', '--allow-http-registry', '--tlog-upload=false'];
      const newer = name === 'forky' ? ['--use-signing-config=false'] : [];
      assertSuccess(await cosign(...sign, ...newer, '--key', '/tmp/key.key', byDigest));
      const verify = ['verify', '--allow-http-registry', '--insecure-ignore-tlog=true'];
      const verified = await cosign(...verify, '--key', '/tmp/key.pub', image);
      assert.ok(assertSuccess(verified).includes(digest), verified.stdout);
    });
  }
});

const signing = { COSIGN_PASSWORD: 'only for tests' };
