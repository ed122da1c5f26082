import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../src/foundation/fault.ts';
import { isDigest } from '../../src/oci/digest.ts';
import { isRepository, isTag } from '../../src/oci/reference.ts';
import { parsePullPath } from '../../src/pull/pull-path.ts';

const component = fc.oneof(
  fc.stringMatching(/^[a-z0-9]{1,8}(?:[._-][a-z0-9]{1,4})?$/),
  fc.constantFrom('manifests', 'blobs', 'tags', 'list', 'referrers', 'ct', 'v2'),
);
const repository = fc
  .array(component, { minLength: 1, maxLength: 5 })
  .map(parts => parts.join('/'));
const tag = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}$/);
const digest = fc.stringMatching(/^[0-9a-f]{64}$/).map(hex => `sha256:${hex}`);
const token = fc.stringMatching(/^[a-z2-7]{32}$/);

test('any grammatical path of a client is parsed, whatever the repository name', () => {
  fc.assert(
    fc.property(token, repository, tag, digest, (id, name, byTag, byDigest) => {
      for (const [kind, reference] of [
        ['manifests', byTag],
        ['manifests', byDigest],
        ['blobs', byDigest],
        ['referrers', byDigest],
        ['tags', 'list'],
      ] as const) {
        const expected = { kind, token: id, repository: name, reference };
        assert.deepEqual(parsePullPath(`${id}/${name}/${kind}/${reference}`), expected);
        const escaped = encodeURIComponent(reference);
        assert.deepEqual(parsePullPath(`${id}/${name}/${kind}/${escaped}`), expected);
      }
    }),
  );
});

test('any other path is a fault in the registry dialect, and nothing unusual gets through', () => {
  const piece = fc.oneof(
    component,
    fc.constantFrom('..', '.', '', '%2e%2e', '%00', '%', 'A', ' '),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), pieces => {
      try {
        const parsed = parsePullPath(pieces.join('/'));
        assert.ok(isRepository(parsed.repository));
        assert.ok(!parsed.token.includes('/'));
        const { kind, reference } = parsed;
        if (kind === 'tags') assert.equal(reference, 'list');
        else
          assert.ok(isDigest(reference) || (kind === 'manifests' && isTag(reference)), reference);
      } catch (error) {
        assert.ok(error instanceof Fault, String(error));
        assert.ok([400, 404].includes(error.status));
      }
    }),
    { numRuns: 1000 },
  );
});
