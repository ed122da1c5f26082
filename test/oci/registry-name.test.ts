import assert from 'node:assert/strict';
import { test } from 'node:test';
import { registryHost } from '../../src/oci/reference.ts';

test('the host of the name of a registry, or of a part of one', () => {
  for (const [text, host] of [
    ['quay.io', 'quay.io'],
    ['QUAY.io/team', 'quay.io'],
    [' https://registry.example.com:5000/v2/ ', 'registry.example.com:5000'],
    ['https://index.docker.io/v1/', 'docker.io'],
    ['registry-1.docker.io', 'docker.io'],
    ['localhost', 'localhost'],
    ['harbor:5000', 'harbor:5000'],
    ['127.0.0.1:443', '127.0.0.1:443'],
    ['[::1]:5000', '[::1]:5000'],
  ] as const) {
    assert.equal(registryHost(text), host, text);
  }
});

test('other names are not registries, whatever they would be in an image name', () => {
  const texts = [
    '',
    '/',
    'harbor',
    'quayio',
    '0',
    'team/app',
    'https://harbor/v2/',
    '1.2',
    '0x7f.1',
  ];
  for (const text of [...texts, 'a b.io', 'quay.io:', 'user@quay.io', '-.io', 'quay.io:70000']) {
    assert.equal(registryHost(text), undefined, text);
  }
});
