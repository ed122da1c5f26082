import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planBuild } from '../../src/builds/plan/plan.ts';

const containerFile = (text: string) => Buffer.from(text).toString('base64');
const plan = (line: string, syntax?: string) => {
  const request = { containerFile: containerFile(`${line}\nFROM alpine\n`) };
  const places = { repository: 'registry.test/builds', cache: undefined, frozen: {} };
  const { key, origin } = planBuild(request, syntax === undefined ? places : { ...places, syntax });
  assert.equal(origin.kind, 'recipe');
  const { frontend, baseImages } = origin.kind === 'recipe' ? origin : assert.fail();
  return { key, frontend, baseImages };
};
const line = '# syntax=docker/dockerfile:1.7';
const alpine = 'docker.io/library/alpine:latest';

test("the frontend of a Dockerfile is the one in its line, the builder's own, or another image", () => {
  for (const [syntax, frontend, image] of [
    [undefined, undefined, 'docker.io/docker/dockerfile:1.7'],
    ['declared', undefined, 'docker.io/docker/dockerfile:1.7'],
    ['builder', 'builder', undefined],
    ['mirror.test/docker/dockerfile', 'mirror.test/docker/dockerfile:1.7', undefined],
    ['mirror.test/frontend:2', 'mirror.test/frontend:2', undefined],
  ] as const) {
    const found = plan(line, syntax);
    assert.equal(found.frontend, frontend);
    const read = image ?? (frontend === 'builder' ? undefined : frontend);
    assert.deepEqual(found.baseImages, [...(read ? [read] : []), alpine]);
    assert.equal(found.key, plan(line).key, 'the key does not depend on the server');
    assert.deepEqual(plan('# nothing', syntax).baseImages, [alpine]);
  }
});

test('another frontend is refused, whatever the server uses', () => {
  for (const syntax of ['declared', 'builder', 'mirror.test/frontend']) {
    assert.throws(
      () => plan('# syntax=evil.test/frontend', syntax),
      /line 1: the syntax evil\.test/,
    );
  }
});
