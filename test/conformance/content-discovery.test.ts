import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { digestOf } from '../../src/oci/digest.ts';
import type { Descriptor } from '../corpus/content.ts';
import { assertError, assertStatus } from './assertions.ts';
import type { Repository } from './client.ts';
import { dataSet, dataSets, exampleTypes } from './data-sets.ts';
import { nextOf, referrersOf, tagPages, tagsOf } from './listing.ts';
import { pushBlobs, pushDataSet, putManifest } from './pushing.ts';
import { startTarget, type Target } from './target.ts';

// In the order of their bytes, which is that of Go's `sort.Strings` too. Upper case is left out: the
// specification calls an order that ignores it lexical.
const tags = ['1', '1.0', '1.10', '1.9', '10', '2', '_x', 'a', 'a-b', 'a.b', 'a_b', 'ab', 'latest'];

let target: Target;
let paged: Repository;

before(async () => {
  target = await startTarget();
  paged = target.repository('paged');
  const set = dataSet('no layers');
  await pushBlobs(paged, set);
  const [manifest] = set.manifests;
  assert.ok(manifest);
  for (const tag of tags.toReversed()) {
    assertStatus(await putManifest(paged, tag, manifest), 201);
  }
});

after(async () => target[Symbol.asyncDispose]());

test('tags of an empty repository', async () => {
  const repository = target.repository('nothing');
  const response = await repository.send('GET', 'tags/list');
  if (response.status !== 200) return assertError(response, 404, 'NAME_UNKNOWN');
  assert.deepEqual(await tagsOf(repository), []);
});

test('all pushed tags are listed, and those after a given tag', async () => {
  const repository = target.repository('everything');
  const pushed: string[] = [];
  for (const set of dataSets) {
    await pushDataSet(repository, set);
    pushed.push(...set.manifests.flatMap(manifest => manifest.tags));
    pushed.sort();
    assert.deepEqual(await tagsOf(repository), pushed, set.name);
    const middle = Math.floor(pushed.length / 2);
    if (middle === 0) continue;
    const behind = await tagsOf(repository, `?last=${pushed[middle - 1]}`);
    assert.deepEqual(behind, pushed.slice(middle), set.name);
  }
});

test('tags are sorted', async () => {
  assert.deepEqual(await tagsOf(paged), tags);
});

test('pages of tags contain each tag once', async () => {
  for (const size of [1, 3, 12, 13, 14, 1000]) {
    const pages = await tagPages(paged, `?n=${size}`);
    assert.deepEqual(pages.flat(), tags, `n=${size}`);
    assert.ok(pages.every(page => page.length <= size));
    // A page is full unless it is the last: there is no Link to an empty one.
    assert.equal(pages.length, Math.ceil(tags.length / size), `n=${size}`);
  }
});

test('pages of tags start after a given tag, whether it exists or not', async () => {
  for (const [last, from] of [
    ['1', 1],
    ['1.8', 3],
    ['latest', tags.length],
    ['zzz', tags.length],
    ['A', 6],
  ] as const) {
    const expected = tags.slice(from);
    assert.deepEqual(await tagsOf(paged, `?last=${last}`), expected, last);
    assert.deepEqual((await tagPages(paged, `?n=2&last=${last}`)).flat(), expected, last);
  }
});

test('an empty page of tags', async () => {
  const response = await paged.send('GET', 'tags/list?n=0');
  assert.equal(nextOf(response), undefined);
  assert.deepEqual(await tagsOf(paged, '?n=0'), []);
});

test('tags with upper case are listed', async () => {
  const repository = target.repository('upper-case');
  const set = dataSet('no layers');
  await pushBlobs(repository, set);
  const mixed = ['b', 'B', 'a', 'A', 'aB', 'Ab'];
  for (const tag of mixed) {
    for (const manifest of set.manifests) await putManifest(repository, tag, manifest);
  }
  const pages = (await tagPages(repository, '?n=1')).flat();
  assert.deepEqual(pages, await tagsOf(repository));
  assert.deepEqual(pages.toSorted(), mixed.toSorted());
});

test('an unknown digest has no referrers', async () => {
  for (const repository of [target.repository('nothing'), paged]) {
    for (const algorithm of ['sha256', 'sha512'] as const) {
      const subject = digestOf('an unknown subject', algorithm);
      assert.deepEqual((await referrersOf(repository, subject)).manifests, []);
      const filtered = await referrersOf(repository, subject, exampleTypes.one);
      assert.deepEqual(filtered.manifests, []);
    }
  }
});

test('referrers of an invalid digest', async () => {
  for (const subject of ['sha256:baddigeststring', 'latest']) {
    assertStatus(await paged.send('GET', `referrers/${subject}`), 400, 404);
  }
});

for (const set of dataSets.filter(({ referrers }) => referrers.size > 0)) {
  test(`${set.name}: every referrer is described, and filtered by its type`, async () => {
    const repository = target.repository(`referrers/${set.slug}`);
    for (const subject of set.referrers.keys()) {
      assert.deepEqual((await referrersOf(repository, subject)).manifests, []);
    }
    await pushDataSet(repository, set);
    for (const [subject, expected] of set.referrers) {
      const all = await referrersOf(repository, subject);
      assertSame(all.manifests, expected);
      assert.equal(all.filters, undefined);
      for (const type of [...new Set(expected.map(typeOf)), 'application/vnd.example.other']) {
        if (type === undefined) continue;
        const { manifests, filters } = await referrersOf(repository, subject, type);
        const wanted = expected.filter(each => typeOf(each) === type);
        assertSame(manifests, wanted);
        assert.equal(filters, 'artifactType');
      }
    }
  });
}

test('a deleted referrer leaves the list, and returns when it is pushed again', async () => {
  const repository = target.repository('referrers-come-and-go');
  const set = dataSet('artifacts with subject');
  await pushDataSet(repository, set);
  for (const [subject, expected] of set.referrers) {
    const [gone, ...rest] = expected;
    assert.ok(gone);
    assertStatus(await repository.send('DELETE', `manifests/${gone.digest}`), 202);
    assertSame((await referrersOf(repository, subject)).manifests, rest);
    const filtered = await referrersOf(repository, subject, String(gone.artifactType));
    assertSame(filtered.manifests, []);
    await pushDataSet(repository, set);
    assertSame((await referrersOf(repository, subject)).manifests, expected);
  }
});

test('referrers remain after the deletion of their subject', async () => {
  const repository = target.repository('referrers-without-subject');
  const set = dataSet('artifacts with subject');
  await pushDataSet(repository, set);
  for (const [subject, expected] of set.referrers) {
    assertStatus(await repository.send('DELETE', `manifests/${subject}`), 202);
    assertSame((await referrersOf(repository, subject)).manifests, expected);
  }
});

test('referrers in another repository are not listed', async () => {
  const set = dataSet('artifacts with subject');
  await pushDataSet(target.repository('referrers-here'), set);
  for (const subject of set.referrers.keys()) {
    const { manifests } = await referrersOf(target.repository('referrers-there'), subject);
    assert.deepEqual(manifests, []);
  }
});

const typeOf = ({ artifactType }: Descriptor) => artifactType as string | undefined;

/** The same descriptors; the specification gives them no order. */
function assertSame(found: readonly Descriptor[], expected: readonly Descriptor[]): void {
  const sorted = (list: readonly Descriptor[]) =>
    list.toSorted((a, b) => (a.digest < b.digest ? -1 : 1));
  assert.deepEqual(sorted(found), sorted(expected));
}
