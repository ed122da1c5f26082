/** Who may use each service, by the settings `access`, without a server. `access.test.ts` has the routes that ask. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import {
  type AccessRules,
  createGate,
  type Gate,
  type Openness,
} from '../../src/http/gates/access-gate.ts';

type Caller = Parameters<Gate['request']>[0];

const open: AccessRules = { requests: 'open', builds: 'open', pulls: 'open' };
const anybody: Caller = {};
const user = { user: 'ada' } as unknown as Caller;
/** Of a user whose access token is for one service. */
const tokenFor = (scope: string) =>
  ({ user: 'ada', rights: { scopes: [scope] } }) as unknown as Caller;

/** Returns the fault of a refusal; undefined where the caller may enter. */
function faultOf(enter: () => void): Fault | undefined {
  try {
    enter();
    return undefined;
  } catch (error) {
    assert.ok(error instanceof Fault, String(error));
    return error;
  }
}

const services = [
  {
    setting: 'requests',
    what: 'container requests, inspections',
    enter: (gate: Gate, caller: Caller) => gate.request(caller),
  },
  {
    setting: 'builds',
    what: 'builds and frozen images',
    enter: (gate: Gate, caller: Caller) => gate.build(caller),
  },
] as const;

for (const { setting, what, enter } of services) {
  const others = services.filter(one => one.setting !== setting);
  const gateWith = (openness: Openness) => createGate({ ...open, [setting]: openness });

  test(`${setting}: open lets everybody in`, () => {
    const gate = gateWith('open');
    gate.beforeRequest();
    for (const caller of [anybody, user]) enter(gate, caller);
  });

  test(`${setting}: login lets only callers with a login in`, () => {
    const gate = gateWith('login');
    gate.beforeRequest();
    enter(gate, user);
    const fault = faultOf(() => enter(gate, anybody));
    assert.equal(fault?.kind, 'unauthorized');
    assert.match(fault.message, /requires a login for .*platformAccessToken.*account/);
    assert.match(String(fault.headers['www-authenticate']), /^Basic realm=/);
    assert.equal((fault.cause as Error).message, `access.${setting} is 'login'`);
    for (const other of others) other.enter(gate, anybody);
  });

  test(`${setting}: off lets nobody in`, () => {
    const gate = gateWith('off');
    for (const caller of [anybody, user, tokenFor(setting.slice(0, -1))]) {
      const fault = faultOf(() => enter(gate, caller));
      assert.equal(fault?.kind, 'denied');
      const says = `^This server accepts no ${what}.*: its operator has disabled them`;
      assert.match(fault.message, new RegExp(says));
      assert.equal((fault.cause as Error).message, `access.${setting} is 'off'`);
      for (const other of others) other.enter(gate, user);
    }
    // Before a body is read, a build is a request as all others.
    const before = faultOf(() => gate.beforeRequest());
    assert.equal(before?.kind, setting === 'requests' ? 'denied' : undefined);
  });

  test(`${setting}: an access token needs the scope, however open the server is`, () => {
    const [own, another] = setting === 'requests' ? ['request', 'build'] : ['build', 'request'];
    for (const openness of ['open', 'login'] as const) {
      const gate = gateWith(openness);
      enter(gate, tokenFor(own));
      const fault = faultOf(() => enter(gate, tokenFor(another)));
      assert.equal(fault?.kind, 'denied');
      assert.match(fault.message, new RegExp(`lacks the scope '${own}'`));
    }
  });
}

test('builds are offered to those whom they let in', () => {
  for (const [builds, withLogin, without] of [
    ['open', true, true],
    ['login', true, false],
    ['off', false, false],
  ] as const) {
    const gate = createGate({ ...open, builds });
    assert.deepEqual([gate.mayBuild(true), gate.mayBuild(false)], [withLogin, without], builds);
  }
});

test('pulls: off gives nobody a name that nobody can pull', () => {
  const gate = createGate({ ...open, pulls: 'off' });
  for (const caller of [anybody, user]) {
    const fault = faultOf(() => gate.serve({}, caller));
    assert.equal(fault?.kind, 'denied');
    assert.match(fault.message, /switched off pulls of served names .*'access\.pulls' is 'off'/);
    gate.serve({ freeze: true }, caller);
    gate.serve({ mirror: true }, caller);
    // Requests and builds have switches of their own.
    gate.request(caller);
    gate.build(caller);
  }
  for (const pulls of ['open', 'login'] as const) {
    createGate({ ...open, pulls }).serve({}, anybody);
  }
});

test('where names that expire are frozen instead, a request for one is a build', () => {
  const gate = createGate({ ...open, builds: 'login', pulls: 'off' }, true);
  gate.serve({}, user);
  gate.serve({ freeze: true }, anybody);
  assert.equal(faultOf(() => gate.serve({}, anybody))?.kind, 'unauthorized');
  createGate({ ...open, builds: 'open' }, true).serve({}, anybody);
});
