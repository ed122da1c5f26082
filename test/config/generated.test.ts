import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { commandLinePage } from '../../scripts/command-line-page.ts';
import { configurationPage } from '../../scripts/configuration-page.ts';
import { readVersion } from '../../src/foundation/version.ts';
import { describeJsonApi } from '../../src/http/api/json-api.ts';
import { describePlatformApi } from '../../src/http/platform/platform-api.ts';
import { settings } from '../../src/server/config/load.ts';

const docs = join(import.meta.dirname, '../../docs');

test('the pages about settings and commands match the generated ones', async () => {
  const page = configurationPage();
  assert.equal(readFileSync(join(docs, 'configuration.md'), 'utf8'), page);
  assert.equal(readFileSync(join(docs, 'command-line.md'), 'utf8'), await commandLinePage());
  for (const { path, variable, description } of settings) {
    assert.notEqual(description, '', path.join('.'));
    if (variable !== undefined) assert.ok(page.includes(`\`${variable}\``), variable);
  }
});

test('the stored API description matches the served one, and its references resolve', () => {
  const api = describeJsonApi(readVersion().version);
  assert.deepEqual(JSON.parse(readFileSync(join(docs, 'openapi.json'), 'utf8')), api);
  const { schemas } = api.components as { schemas: Record<string, object> };
  const references = JSON.stringify(api).matchAll(/"#\/components\/schemas\/(\w+)"/g);
  const names = new Set([...references].map(([, name = '']) => name));
  assert.ok(names.size > 5);
  assert.doesNotMatch(JSON.stringify(api), /\$defs/);
  for (const name of names) assert.ok(schemas[name], name);
});

test('both descriptions are valid, and name every operation, parameter and schema', async () => {
  const { version } = readVersion();
  for (const api of [describeJsonApi(version), describePlatformApi(version)]) {
    const { valid, errors } = await new Validator().validate(structuredClone(api));
    assert.ok(valid, JSON.stringify(errors));
    const operations = Object.values(api.paths).flatMap(methods => Object.values(methods));
    const ids = operations.map(({ operationId }) => operationId);
    assert.equal(new Set(ids).size, ids.length);
    assert.doesNotMatch(JSON.stringify(api), /undefined/);
    for (const { operationId, tags, responses } of operations) {
      assert.ok(Array.isArray(tags) && tags.length === 1, operationId);
      assert.ok('default' in (responses as object), operationId);
    }
  }
});

test('the document declares numbers as numbers, rate limits, and Retry-After', () => {
  const { version } = readVersion();
  const plain = (api: object) => JSON.parse(JSON.stringify(api));
  const { paths, components } = plain(describeJsonApi(version));
  const retryAfter = { $ref: '#/components/headers/RetryAfter' };
  assert.deepEqual(components.responses.TooManyRequests.headers['Retry-After'], retryAfter);
  const { responses } = paths['/v1alpha2/container'].post;
  assert.ok('RateLimit-Remaining' in responses[200].headers);
  assert.ok('429' in responses);
  const platform = plain(describePlatformApi(version));
  const [userId] = platform.paths['/users/{userId}'].delete.parameters;
  assert.equal(userId.schema.type, 'integer');
});
