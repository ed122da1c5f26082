import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type AugmentedImage, augment } from '../../src/images/augment/augment.ts';
import { type ImageChange, isUnchanged } from '../../src/images/augment/image-config.ts';
import { type Digest, digestOf } from '../../src/oci/digest.ts';
import { asObject, type JsonObject, parseLossless, writeJson } from '../../src/oci/json.ts';
import { type Document, manifestType } from '../../src/oci/manifest.ts';
import { isIndexType, mediaTypes } from '../../src/oci/media-type.ts';
import { isAttestation } from '../../src/oci/platform.ts';
import { type Base, changes, images, indexes } from './arbitraries.ts';

const bases = fc.oneof(images, indexes);

type Entry = JsonObject & { mediaType: string; digest: Digest; size: number };

const members = (document: Document) => parseLossless(document.bytes, 'manifest');
const list = (value: unknown) => (value ?? []) as readonly Entry[];
const text = (value: unknown) => writeJson({ value }).toString();

/** Returns the document as text without the named members: this part must be the same before and after. */
function without(value: unknown, ...names: readonly string[]): string {
  const object = asObject(value) ?? {};
  return text(Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name))));
}

function find({ generated }: AugmentedImage, { documents }: Base, digest: Digest) {
  return generated.get(digest) ?? documents.get(digest);
}

test('documents: the same base and change give the same bytes, and the base is not modified', () => {
  fc.assert(
    fc.property(bases, changes, ({ root, documents }, change) => {
      const before = [...documents.values()].map(({ bytes }) => Buffer.from(bytes));
      const one = augment(root, documents, change);
      const copies = [...documents].map(([digest, document]) => [digest, { ...document }] as const);
      const other = augment({ ...root }, new Map(copies.reverse()), structuredClone(change));
      assert.deepEqual([...one.generated], [...other.generated]);
      assert.equal(one.root.digest, other.root.digest);
      for (const [at, { bytes }] of [...documents.values()].entries()) {
        assert.ok(before[at]?.equals(bytes));
      }
    }),
  );
});

test('documents: without a change the root is the received document', () => {
  fc.assert(
    fc.property(
      bases,
      fc.constantFrom<ImageChange[]>({}, { env: [] }, { layers: [] }),
      (base, no) => {
        assert.equal(augment(base.root, base.documents, no).root, base.root);
      },
    ),
  );
});

test('documents: each generated document is named by its digest and reachable from the root', () => {
  fc.assert(
    fc.property(bases, changes, (base, change) => {
      const image = augment(base.root, base.documents, change);
      const reached = new Set<Digest>();
      const visit = (document: Document) => {
        reached.add(document.digest);
        const { manifests, config } = members(document);
        for (const entry of [...list(manifests), ...(config ? list([config]) : [])]) {
          const made = image.generated.get(entry.digest);
          if (!made) continue;
          assert.equal(entry.size, made.bytes.length);
          reached.add(made.digest);
          if (entry !== config) visit(made);
        }
      };
      visit(image.root);
      for (const [digest, made] of image.generated) {
        assert.equal(digest, digestOf(made.bytes));
        assert.equal(digest, made.digest);
        assert.ok(reached.has(digest), 'no document is made that nothing refers to');
      }
    }),
  );
});

test('indexes: entries that are not images stay, available images change, everything else is kept', () => {
  fc.assert(
    fc.property(indexes, changes, (base, change) => {
      const image = augment(base.root, base.documents, change);
      const walk = (before: Document, after: Document) => {
        const [was, is] = [members(before), members(after)];
        assert.deepEqual(Object.keys(is), Object.keys(was));
        assert.equal(without(is, 'manifests'), without(was, 'manifests'));
        const entries = list(is.manifests);
        assert.equal(entries.length, list(was.manifests).length);
        for (const [at, entry] of list(was.manifests).entries()) {
          const now = entries[at];
          assert.ok(now);
          assert.equal(without(now, 'digest', 'size'), without(entry, 'digest', 'size'));
          const child = base.documents.get(entry.digest);
          const isForeign = isAttestation(entry as never) || entry.mediaType.includes('example');
          if (!child || isForeign || isUnchanged(change)) {
            assert.equal(text(now), text(entry));
          } else if (isIndexType(entry.mediaType)) {
            const nested = find(image, base, now.digest);
            assert.ok(nested);
            walk(child, nested);
          } else {
            const alone = augment(child, base.documents, change).root;
            assert.equal(now.digest, alone.digest, 'as it would be on its own');
          }
        }
      };
      walk(base.root, image.root);
    }),
  );
});

test('manifests: layers are appended in the family of the base, everything else is kept', () => {
  fc.assert(
    fc.property(images, changes, (base, change) => {
      const image = augment(base.root, base.documents, change);
      const [was, is] = [members(base.root), members(image.root)];
      assert.equal(image.root.mediaType, base.root.mediaType);
      assert.equal(manifestType(image.root), manifestType(base.root));
      assert.deepEqual(Object.keys(is), Object.keys(was));
      assert.equal(without(is, 'layers', 'config'), without(was, 'layers', 'config'));
      assert.equal(
        without(is.config, 'digest', 'size'),
        without(was.config, 'digest', 'size'),
        'the type of the config and the other members of its descriptor',
      );
      const [before, after] = [list(was.layers), list(is.layers)];
      assert.equal(text(after.slice(0, before.length)), text(before));
      const isDocker = base.root.mediaType === mediaTypes.dockerManifest;
      const config = members([...base.documents.values()][1] as Document);
      const given = (change.layers ?? []).filter(
        ({ architecture = config.architecture }) => architecture === config.architecture,
      );
      assert.deepEqual(
        after.slice(before.length),
        given.map(({ gzipDigest, gzipSize }) => ({
          mediaType: isDocker ? mediaTypes.dockerLayerGzip : mediaTypes.ociLayerGzip,
          digest: gzipDigest,
          size: gzipSize,
        })),
      );
      const changed = image.root !== base.root;
      assert.equal(changed, !isUnchanged({ ...change, layers: given }));
      assert.equal(image.maxLayers, changed ? after.length : 0);
    }),
  );
});

test('configs: one diff ID and one history entry for each layer; unknown members are kept', () => {
  fc.assert(
    fc.property(images, changes, (base, change) => {
      const image = augment(base.root, base.documents, change);
      const configOf = (manifest: Document) => {
        const { digest } = asObject(members(manifest).config) as Entry;
        return members(find(image, base, digest) as Document);
      };
      const [was, is] = [configOf(base.root), configOf(image.root)];
      const changing = ['config', 'rootfs', 'history'];
      assert.equal(without(is, ...changing), without(was, ...changing));
      const kept = Object.keys(is).filter(name => name in was);
      assert.deepEqual(kept, Object.keys(was), 'in the same order');
      assert.equal(without(is.rootfs, 'diff_ids'), without(was.rootfs, 'diff_ids'));
      const runtimeMembers = ['Entrypoint', 'Cmd', 'Env', 'WorkingDir'];
      assert.equal(without(is.config, ...runtimeMembers), without(was.config, ...runtimeMembers));
      const layers = list(members(image.root).layers).length;
      assert.equal(list(asObject(is.rootfs)?.diff_ids).length, layers);
      assert.equal(
        text(list(is.history).slice(0, list(was.history).length)),
        text(list(was.history)),
      );
      const hasNewLayers = layers > list(members(base.root).layers).length;
      const filled = list(is.history).filter(entry => entry.empty_layer !== true).length;
      if (hasNewLayers) assert.equal(filled, layers);
      else assert.equal(text(is.history), text(was.history));
    }),
  );
});
