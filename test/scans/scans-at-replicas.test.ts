/** Pulls at a replica that follows: it does not know of scans. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ContainerRequest } from '../../src/request/index.ts';
import type { ContainerToken } from '../../src/request/tokens/container-token.ts';
import { coveredTokens } from '../../src/server/replicas/reads/own-reads.ts';

test('an image that the operator wants scanned is left to the leader, also with a name from before', async () => {
  const tokensOf = (user: string | undefined, required: 'off' | 'anonymous') => {
    const request = { caller: { address: '', user } } as ContainerRequest;
    const reader = { get: async () => request, unrevoked: async () => request };
    return coveredTokens(reader, { required, levels: [] });
  };
  const token = 'token' as ContainerToken;
  for (const read of ['get', 'unrevoked'] as const) {
    await assert.rejects(tokensOf(undefined, 'anonymous')[read](token), /it knows the scan/);
    assert.ok(await tokensOf('account ada', 'anonymous')[read](token));
    assert.ok(await tokensOf(undefined, 'off')[read](token));
  }
});
