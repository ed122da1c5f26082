/** The images for tests of pulls: identical each time, complete, and unusual on purpose. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { suite, test } from 'node:test';
import { promisify } from 'node:util';
import { bytesOf, type Content, mediaTypes, sha256 } from './corpus/content.ts';
import { corpusNames, makeImage, pushCorpus } from './corpus/corpus.ts';
import { pull } from './world/clients.ts';
import { startRegistry } from './world/registry.ts';
import { openRoot } from './world/root.ts';

const everyName = [...corpusNames(), 'schema1:latest', 'big:64m'];

test('the images have the same digests in every process', async () => {
  const script = `
    const { makeImage } = await import('${new URL('corpus/corpus.ts', import.meta.url).href}');
    const names = ${JSON.stringify(everyName)};
    const images = await Promise.all(names.map(makeImage));
    console.log(images.map(image => image.root.digest).join('\\n'));`;
  const make = async () => {
    const flags = ['--input-type=module', '-e', script];
    const { stdout } = await promisify(execFile)(process.execPath, flags);
    return stdout.trim().split('\n');
  };
  const [first, second] = await Promise.all([make(), make()]);
  assert.equal(first?.length, everyName.length);
  assert.deepEqual(first, second);
});

test('a registry returns the pushed bytes, and lacks removed content', async () => {
  await using registry = await startRegistry({ schema1: true });
  const pushed = await pushCorpus(registry, everyName);
  assert.deepEqual([...pushed.keys()], everyName);
  const fetchContent = async (repository: string, kind: string, name: string, type = '*/*') => {
    const url = `${registry.url}/v2/${repository}/${kind}/${name}`;
    return fetch(url, { headers: { accept: type } });
  };
  const seen = new Set<string>();
  const isNew = (repository: string) => (content: Content) => {
    const key = `${repository} ${content.digest}`;
    return !seen.has(key) && seen.add(key);
  };
  for (const { repository, tag, image } of pushed.values()) {
    const root = await fetchContent(repository, 'manifests', tag, image.root.mediaType);
    assert.equal(root.status, 200, `${repository}:${tag}`);
    assert.equal(root.headers.get('docker-content-digest'), image.root.digest);
    const bytes = Buffer.from(await root.arrayBuffer());
    // The registry creates a new signature for schema 1, and its digest excludes the signature.
    const isSigned = image.root.mediaType === mediaTypes.schema1;
    assert.ok(isSigned || bytes.equals(bytesOf(image.root)), `${repository}:${tag}`);
    const isGone = (content: Content) =>
      image.gone?.some(({ digest }) => digest === content.digest) === true;
    for (const child of image.children.filter(isNew(repository))) {
      const response = await fetchContent(repository, 'manifests', child.digest, child.mediaType);
      assert.equal(
        response.status,
        isGone(child) ? 404 : 200,
        `${repository}:${tag} ${child.digest}`,
      );
      if (!isGone(child))
        assert.equal(sha256(Buffer.from(await response.arrayBuffer())), child.digest);
    }
    for (const blob of image.blobs.filter(isNew(repository))) {
      const url = `${registry.url}/v2/${repository}/blobs/${blob.digest}`;
      const response = await fetch(url, { method: 'HEAD' });
      assert.equal(
        response.status,
        isGone(blob) ? 404 : 200,
        `${repository}:${tag} ${blob.digest}`,
      );
      if (!isGone(blob)) assert.equal(response.headers.get('content-length'), String(blob.size));
    }
  }
});

test('a family stands for its images, and an unknown name is an error', async () => {
  await using registry = await startRegistry();
  const pushed = await pushCorpus(registry, ['hist', 'hist:none', 'cfg:full']);
  const expected = ['hist:none', 'hist:emptylayers', 'hist:mismatch', 'hist:nocreated', 'cfg:full'];
  assert.deepEqual([...pushed.keys()], expected);
  await assert.rejects(pushCorpus(registry, ['cfg:other']), /no image 'cfg:other'/);
});

test('the referrer of the subject is found under the fallback tag', async () => {
  await using registry = await startRegistry();
  const pushed = await pushCorpus(registry, ['artifact:subject', 'artifact:referrer']);
  const subject = pushed.get('artifact:subject')?.digest ?? '';
  const tag = subject.replace(':', '-');
  const response = await fetch(`${registry.url}/v2/corpus/artifact/manifests/${tag}`, {
    headers: { accept: 'application/vnd.oci.image.index.v1+json' },
  });
  const index = (await response.json()) as { manifests: { digest: string }[] };
  const referrers = index.manifests.map(({ digest }) => digest);
  assert.deepEqual(referrers, [pushed.get('artifact:referrer')?.digest]);
});

suite('shapes', () => {
  const json = async (name: string) => {
    const { root, blobs } = await makeImage(name);
    const text = (content: Content | undefined) => content && bytesOf(content).toString();
    return { manifest: text(root) ?? '', config: text(blobs[0]) ?? '' };
  };

  test('numbers beyond the range of JavaScript are in the configuration', async () => {
    const { config } = await json('cfg:unknown-fields');
    assert.match(config, /9007199254740993/);
    assert.notEqual(JSON.stringify(JSON.parse(config)), config);
  });

  test('unusual spellings differ from those of JSON.stringify', async () => {
    const { manifest, config } = await json('cfg:rawjson');
    for (const text of [manifest, config]) {
      assert.notEqual(JSON.stringify(JSON.parse(text)), text);
      assert.notEqual(JSON.stringify(JSON.parse(text), null, 3), text);
    }
    assert.equal(JSON.parse(config).os, 'linux');
  });

  test('the numbers of layers match the names', async () => {
    for (const count of [60, 120, 124, 125, 126, 127]) {
      const { manifest, config } = await json(`layers:${count}`);
      assert.equal(JSON.parse(manifest).layers.length, count);
      assert.equal(JSON.parse(config).rootfs.diff_ids.length, count);
    }
  });

  test('the large manifest is just below the limit of registries', async () => {
    const { root } = await makeImage('odd:large-manifest');
    assert.ok(root.size > 3.5 * 2 ** 20 && root.size < 4 * 2 ** 20, `${root.size} bytes`);
  });

  test('the layers of a mixed image unpack to the content in the configuration', async () => {
    await using registry = await startRegistry();
    const names = ['busybox:mixed', 'busybox:oci-zstd', 'layers:whiteout'];
    const pushed = await pushCorpus(registry, names);
    await using root = await openRoot('forky');
    for (const { reference } of pushed.values()) {
      // podman compares each layer with its diff id when it unpacks.
      const result = await pull(root, 'podman', reference);
      assert.equal(result.code, 0, result.stderr);
    }
  });
});
