/** Where a redirect of a registry may lead, and what goes along. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/foundation/fault.ts';
import { checkAddress } from '../../src/upstream/transport/address-guard.ts';
import {
  RedirectFailure,
  redirected,
  redirectedRequest,
} from '../../src/upstream/transport/redirect.ts';
import type { HttpRequest } from '../../src/upstream/transport/transport.ts';
import type { UpstreamResponse } from '../../src/upstream/transport/upstream-response.ts';

const headers = { authorization: 'Bearer secret', accept: '*/*' };

function requestTo(url: string, more: Partial<HttpRequest> = {}): HttpRequest {
  return { url: new URL(url), method: 'GET', headers, ...more };
}

/** A response that says whether its body was destroyed. */
function responseOf(status: number, location: string | undefined) {
  const state = { isDestroyed: false };
  const response: UpstreamResponse = {
    status,
    headers: new Map(location === undefined ? [] : [['location', location]]),
    contentLength: 0,
    body: {
      read: async () => null,
      destroy() {
        state.isDestroyed = true;
      },
    },
  };
  return { response, state };
}

test('these statuses with a location are redirects, and no others', () => {
  const request = requestTo('https://a.test/v2/');
  for (const status of [301, 302, 303, 307, 308]) {
    const { response, state } = responseOf(status, '/next');
    assert.equal(redirectedRequest(request, response)?.url.href, 'https://a.test/next');
    assert.equal(redirectedRequest(request, responseOf(status, undefined).response), undefined);
    assert.equal(state.isDestroyed, false);
  }
  for (const status of [200, 201, 202, 300, 304, 305, 306, 309, 401, 404]) {
    assert.equal(
      redirectedRequest(request, responseOf(status, '/next').response),
      undefined,
      String(status),
    );
  }
});

test('credentials go along within their origin only, all else always', () => {
  const from = 'https://a.test:8443/v2/x';
  for (const [location, goes] of [
    ['/v2/y', true],
    ['y?page=2', true],
    ['https://a.test:8443/', true],
    ['https://a.test/', false],
    ['https://a.test:8444/', false],
    ['https://b.test:8443/', false],
    ['https://sub.a.test:8443/', false],
    ['//b.test/', false],
  ] as const) {
    const next = redirectedRequest(requestTo(from), responseOf(307, location).response);
    assert.deepEqual(next?.headers, goes ? headers : { accept: '*/*' }, location);
    assert.equal(next?.method, 'GET');
  }
  const upgraded = redirectedRequest(
    requestTo('http://a.test/'),
    responseOf(307, 'https://a.test/').response,
  );
  assert.deepEqual(upgraded?.headers, { accept: '*/*' }, 'another protocol is another origin');
});

test('credentials that a redirect took off are not sent again on the way back', () => {
  const away = redirectedRequest(
    requestTo('https://a.test/'),
    responseOf(302, 'https://b.test/').response,
  );
  assert.ok(away);
  const back = redirectedRequest(away, responseOf(302, 'https://a.test/').response);
  assert.deepEqual(back?.headers, { accept: '*/*' });
  assert.ok(!('authorization' in (back?.headers ?? {})));
});

test('the server that redirected first is the origin of all that follow', () => {
  const first = redirectedRequest(
    requestTo('https://a.test/'),
    responseOf(302, 'https://b.test/').response,
  );
  assert.equal(first?.from?.href, 'https://a.test/');
  assert.ok(first);
  const second = redirectedRequest(first, responseOf(302, 'https://c.test/').response);
  assert.equal(second?.from?.href, 'https://a.test/');
  const token = requestTo('https://t.test/', { from: new URL('https://a.test/') });
  assert.equal(
    redirectedRequest(token, responseOf(302, '/x').response)?.from?.href,
    'https://a.test/',
  );
});

test('a redirect that must not be followed is the fault of its server, and its body is destroyed', () => {
  for (const [from, location, why] of [
    ['https://a.test/', 'http://a.test/', /^a\.test redirects to a\.test over plain http,/],
    ['https://a.test/', 'ftp://a.test/', /redirects to the protocol ftp:,/],
    ['http://a.test/', 'file:///etc/passwd', /redirects to the protocol file:,/],
    ['https://a.test/', 'https://[', /redirects to an address that is not a URL,/],
  ] as const) {
    const { response, state } = responseOf(302, location);
    assert.throws(
      () => redirectedRequest(requestTo(from), response),
      (error: unknown) =>
        error instanceof Fault && error.kind === 'upstream-unusable' && why.test(error.message),
      location,
    );
    assert.ok(state.isDestroyed);
  }
  const plain = redirectedRequest(
    requestTo('http://a.test/'),
    responseOf(302, 'http://b.test/').response,
  );
  assert.equal(plain?.url.href, 'http://b.test/', 'plain http may lead to plain http');
});

test('a failure behind a redirect names both hosts, and keeps the code of its cause', () => {
  const [from, to] = [new URL('https://a.test/'), new URL('https://b.test/')];
  const reset = Object.assign(new Error('reset'), { code: 'ECONNRESET' });
  const failure = redirected(reset, from, to);
  assert.ok(failure instanceof RedirectFailure);
  assert.equal(failure.message, 'a.test redirects to b.test, which');
  assert.equal(failure.cause, reset);
  assert.deepEqual([failure.code, failure.to], ['ECONNRESET', to]);
  const without = redirected(new Error('x'), from, to);
  assert.ok(without instanceof RedirectFailure && without.code === undefined);
});

test('what tells its own story behind a redirect stays as it is', () => {
  const [from, to] = [new URL('https://a.test/'), new URL('https://b.test/')];
  const ended = AbortSignal.abort().reason;
  for (const error of [new Fault('upstream', 'it says 500'), ended, 'no error at all']) {
    assert.equal(redirected(error, from, to), error);
  }
});

test('a closed address behind a redirect is denied, not a mistake of the caller', () => {
  const [from, to] = [new URL('https://a.test/'), new URL('http://127.0.0.1:1/')];
  let closed: unknown;
  try {
    checkAddress(to, () => false);
  } catch (error) {
    closed = error;
  }
  for (const error of [closed, new Error('failed', { cause: closed })]) {
    const fault = redirected(error, from, to, 'both hosts');
    assert.ok(fault instanceof Fault && fault.kind === 'denied');
    assert.match(fault.message, /^a\.test redirects to '127\.0\.0\.1:1', a loopback/);
    assert.match(fault.message, /by listing both hosts in the configuration$/);
  }
  const usual = redirected(closed, from, to);
  assert.ok(usual instanceof Fault && /by listing it in the/.test(usual.message));
});
