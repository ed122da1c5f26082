import assert from 'node:assert/strict';
import { test } from 'node:test';
import { closedSourceRules } from '../../src/builds/solve/closed-sources.ts';

const rules = closedSourceRules(
  ['registry.example.com:443', 'plain.example.com:5000', 'sluice.example.com:80'],
  ['10.1.2.3:8080', 'files.example.com', '172.16.0.9'],
  'sluice.example.com:80',
);

/** As BuildKit decides: the last rule that matches. */
function isDenied(identifier: string): boolean {
  const last = rules.findLast(({ pattern }) =>
    new RegExp(pattern.replace('(?i)', ''), 'i').test(identifier),
  );
  return last?.action === 'deny';
}

const denied = [
  'http://127.0.0.1/',
  'http://127.1.2.3:9090/metrics',
  'https://10.0.0.1/file',
  'HTTP://10.255.255.255',
  'http://100.64.0.1/',
  'http://100.127.0.1/',
  'http://169.254.169.254/latest/meta-data/',
  'http://172.16.0.1/',
  'http://172.31.255.1?x',
  'http://192.0.0.1/',
  'http://192.168.1.1/',
  'http://198.19.0.1/',
  'http://203.0.113.7#x',
  'http://239.0.0.1/',
  'http://255.255.255.255/',
  'http://0.0.0.0/',
  'http://user:word@10.0.0.1/file',
  'http://[::1]/',
  'http://[fd00::1]:8080/x',
  'http://localhost/',
  'http://LOCALHOST.:80/',
  'http://a.localhost/',
  'git://10.0.0.1/team/project.git',
  'git://localhost/x.git#main',
  'https://registry.example.com/v2/',
  'https://registry.example.com:443/v2/',
  'http://plain.example.com:5000/v2/',
  'http://sluice.example.com/metrics',
  'http://sluice.example.com/v1alpha1/builds/0a1b_1/logs',
  'http://sluice.example.com/v1alpha1/builds/0a1b_1/condalock?x=/metrics',
  'http://sluice.example.com/v1alpha1/builds/../../metrics/condalock',
  'http://sluice.example.com/v1alpha1/builds/0a1b_1/lock?format=pixi',
  'http://10.1.2.3/',
  'http://10.1.2.3:80801/',
];
const allowed = [
  'http://8.8.8.8/',
  'http://100.63.0.1/',
  'http://100.128.0.1/',
  'http://172.15.0.1/',
  'http://172.32.0.1/',
  'http://11.0.0.1/',
  'http://128.0.0.1/',
  'http://192.0.3.1/',
  'https://example.com/10.0.0.1/file',
  'https://10.0.0.1.example.com/file',
  'https://localhost.example.com/',
  'https://plain.example.com/',
  'git://github.com/moby/buildkit.git',
  'http://10.1.2.3:8080/file',
  'http://172.16.0.9:81/file',
  'https://files.example.com/x',
  'http://sluice.example.com/v1alpha1/builds/0a1b_1/condalock',
  'http://sluice.example.com/v1alpha1/builds/0a1b_1/lock',
  'http://sluice.example.com/v1alpha1/builds/0a1b_1/lock?format=explicit',
  'docker-image://127.0.0.1:5000/base:1',
  'local://context',
];
for (const [identifiers, expected] of [
  [denied, true],
  [allowed, false],
] as const) {
  for (const identifier of identifiers) {
    test(`${expected ? 'denied' : 'allowed'}: ${identifier}`, () => {
      assert.equal(isDenied(identifier), expected);
    });
  }
}
