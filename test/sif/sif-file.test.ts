import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { type RangeReader, readSif } from '../../src/images/sif/format/read-sif.ts';
import { type SifContents, sifHead, squashfsOffset } from '../../src/images/sif/format/sif-file.ts';
import { pushCorpus } from '../corpus/corpus.ts';
import { type Apptainer, apptainerTool, openApptainer } from '../world/apptainer.ts';
import { assertBytes } from '../world/assert-bytes.ts';
import { type Registry, startRegistry } from '../world/registry.ts';
import { assembleSif } from './assemble.ts';

const contents: SifContents = {
  definition: 'bootstrap: docker\nfrom: image\n\n',
  inspectMetadata: { data: { attributes: {} }, type: 'container' },
  ociConfig: { Env: ['A=<1>'] },
  architecture: 'arm64',
  createdAt: Date.UTC(2024, 1, 29, 12),
  id: Buffer.from('00112233445566778899aabbccddeeff', 'hex'),
};

const texts = fc.string({ unit: 'grapheme', maxLength: 20_000 });
const anyContents: fc.Arbitrary<SifContents> = fc.record({
  definition: texts,
  inspectMetadata: fc.dictionary(fc.string(), texts, { maxKeys: 5, noNullPrototype: true }),
  ociConfig: fc.dictionary(fc.string(), texts, { maxKeys: 5, noNullPrototype: true }),
  architecture: fc.constantFrom('amd64', 'arm64'),
  createdAt: fc.nat({ max: 4_000_000_000 }).map(seconds => seconds * 1000),
  id: fc.uint8Array({ minLength: 16, maxLength: 16 }),
});

test('a written file can be read again, and the file system begins at the stated position', async () => {
  const sizes = fc.maxSafeNat().map(size => Math.floor(size / 4));
  await fc.assert(
    fc.asyncProperty(anyContents, sizes, async (any, size) => {
      const head = sifHead(any, size);
      assert.equal(head.length, squashfsOffset(any));
      assert.equal(head.length % 4096, 0);
      const read = await readSif(async (offset, length) => head.subarray(offset, offset + length));
      assert.equal(read.definition, any.definition.toWellFormed());
      assert.deepEqual(read.metadata, wellFormed(any.inspectMetadata));
      assert.deepEqual(read.ociConfig, wellFormed(any.ociConfig));
      assert.equal(read.architecture, any.architecture);
      assert.equal(read.createdAt, any.createdAt);
      assert.equal(read.id.replaceAll('-', ''), Buffer.from(any.id).toString('hex'));
      assert.deepEqual(read.squashfs, { offset: head.length, size });
    }),
  );
});

test('the same contents give the same bytes', () => {
  assertBytes(sifHead(contents, 5), sifHead({ ...contents }, 5));
});

describe('beside the real programs', () => {
  let apptainer: Apptainer;
  let registry: Registry;

  before(async () => {
    apptainer = await openApptainer();
    registry = await startRegistry();
  });

  after(async () => {
    await registry?.stop();
    await apptainer?.remove();
  });

  const siftool = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await apptainer.runProgram([
      apptainerTool('siftool'),
      ...args,
    ]);
    assert.equal(code, 0, stderr);
    return stdout;
  };

  test('siftool reads the file correctly', async () => {
    const config = { Env: ['A=<1>'], Cmd: ['/bin/sh'] };
    const sif = await assembleSif(apptainer, 'siftool', { config });
    const described = await readSif(rangesOf(sif));
    const header = await siftool('header', sif);
    assert.match(header, /^Launch Script: +#!\/usr\/bin\/env run-singularity$/m);
    assert.match(header, /^Version: +01$/m);
    assert.match(header, /^Primary Architecture: +amd64$/m);
    assert.match(header, new RegExp(`^ID: +${described.id}$`, 'm'));
    assert.match(header, /^Created At: +2024-02-29 12:00:00 \+0000 UTC$/m);
    assert.match(header, /^Descriptors Free: +44$/m);
    assert.match(header, /^Descriptors Total: +48$/m);
    const { offset = 0, size = 0 } = described.squashfs ?? {};
    const list = (await siftool('list', sif)).split('\n').filter(line => /^\d/.test(line));
    assert.deepEqual(
      list.map(line => line.split('|').map(part => part.trim())),
      described.objects.map((object, position) => [
        ...[String(object.id), String(object.group), 'NONE'],
        `${object.offset}-${object.offset + object.size}`,
        ['Def.FILE', 'JSON.Generic', 'JSON.Generic', 'FS (Squashfs/*System/amd64)'][position],
      ]),
    );
    assert.equal(described.objects.at(-1)?.offset, offset);
    assert.equal(described.objects.at(-1)?.size, size);
    assert.equal(await siftool('dump', '1', sif), described.definition);
    assert.deepEqual(JSON.parse(await siftool('dump', '2', sif)), described.metadata);
    assert.deepEqual(JSON.parse(await siftool('dump', '3', sif)), config);
  });

  test('the bytes before the file system equal those of apptainer build', async () => {
    const pushed = await pushCorpus(registry, ['cfg:full', 'busybox:oci']);
    for (const [name, { reference }] of pushed) {
      const sif = apptainer.join(`${name.replace(':', '-')}.sif`);
      const built = await apptainer.run(['build', '--no-https', sif, `docker://${reference}`]);
      assert.equal(built.code, 0, built.stderr);
      const read = rangesOf(sif);
      const described = await readSif(read);
      const { definition = '', metadata = {}, ociConfig = {}, squashfs } = described;
      assert.equal(definition, `bootstrap: docker\nfrom: ${reference}\n\n`);
      const head = sifHead(
        {
          ...{ definition, ociConfig, inspectMetadata: metadata, createdAt: described.createdAt },
          architecture: described.architecture === 'arm64' ? 'arm64' : 'amd64',
          id: Buffer.from(described.id.replaceAll('-', ''), 'hex'),
        },
        squashfs?.size ?? 0,
      );
      assert.equal(head.length, squashfs?.offset);
      assert.ok(head.equals(await read(0, head.length)), name);
    }
  });
});

function rangesOf(path: string): RangeReader {
  return async (offset, length) => {
    await using file = await open(path);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset);
    return buffer.subarray(0, bytesRead);
  };
}

/** Half a surrogate pair has no UTF-8. */
function wellFormed(value: object): object {
  return JSON.parse(Buffer.from(JSON.stringify(value)).toString());
}
