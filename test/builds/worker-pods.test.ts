/** Pods of workers, which Sluice replaces. `npm run cluster` does it with Kubernetes. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import {
  createWorkerPods,
  findPodAccount,
  findWorkerPods,
} from '../../src/builds/builder/worker-pods.ts';
import { eventually } from '../world/eventually.ts';
import { startPodsApi } from '../world/pods-api.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const never = new AbortController().signal;
const first = { name: 'worker-0', uid: 'uid-0', ip: '10.0.0.1' };
const second = { name: 'worker-1', uid: 'uid-1', ip: '10.0.0.2' };
const addressOf = ({ ip }: { ip: string }) => `tcp://${ip}:1234`;

suite('pods of workers', () => {
  test('a pod is new once, and only if it came after the server', async () => {
    await using api = await startPodsApi();
    api.pods.push(first);
    const pods = createWorkerPods(api.account);
    await pods.look();
    api.pods.push(second);
    assert.equal(await pods.claim(addressOf(first), never), false);
    assert.equal(await pods.claim(addressOf(second), never), true);
    assert.equal(await pods.claim(addressOf(second), never), false);
    assert.ok(
      api.asked.every(one => /^list sluice\.wipe in/.test(one)),
      String(api.asked),
    );
  });

  test('more pods than one page has are all noted', async () => {
    await using api = await startPodsApi();
    for (let index = 0; index < 1200; index += 1) {
      api.pods.push({
        name: `worker-${index}`,
        uid: `uid-${index}`,
        ip: `10.0.${index >> 8}.${index & 255}`,
      });
    }
    const pods = createWorkerPods(api.account);
    assert.equal(await pods.claim('tcp://10.0.4.100:1234', never), false);
  });

  test('a pod is deleted, and the next one of its name is not', async () => {
    await using api = await startPodsApi();
    const pods = createWorkerPods(api.account);
    await pods.look();
    api.pods.push(first, second);
    const next = { ...first, uid: 'uid-next', ip: '10.0.0.3' };
    api.onDelete = () => {
      api.pods[0] = next;
    };
    await pods.wipe(addressOf(first), never);
    assert.deepEqual(api.pods, [next, second]);
    // No pod has the address any more.
    await pods.wipe(addressOf(first), never);
    assert.equal(api.asked.filter(one => one.startsWith('DELETE')).length, 1);
    assert.equal(await pods.claim(addressOf(next), never), true);
  });

  test('a pod that another one replaces meanwhile stays', async () => {
    await using api = await startPodsApi();
    const pods = createWorkerPods(api.account);
    api.pods.push(first);
    api.faults.set('delete', 409);
    api.onDelete = () => assert.fail('deleted');
    const wiped = pods.wipe(addressOf(first), never);
    await eventually('it was asked', async () => api.asked.some(one => one.startsWith('DELETE')));
    api.pods[0] = { ...first, uid: 'uid-next' };
    await wiped;
    assert.equal(api.pods[0]?.uid, 'uid-next');
  });

  test('a deletion that takes its time is waited for, and a wait can be given up', async () => {
    await using api = await startPodsApi();
    const pods = createWorkerPods(api.account);
    api.pods.push(first);
    api.onDelete = () => {};
    const giveUp = new AbortController();
    const given = pods.wipe(addressOf(first), giveUp.signal);
    const waited = pods.wipe(addressOf(first), never);
    await eventually(
      'it was asked',
      async () => api.asked.filter(one => one === 'GET worker-0').length > 3,
    );
    giveUp.abort(new Error('given up'));
    await assert.rejects(given, /given up/);
    api.pods.splice(0);
    await waited;
  });

  test('failures say what to do', async () => {
    await using api = await startPodsApi();
    api.pods.push(
      first,
      { ...second, ip: '10.0.0.9' },
      { ...second, name: 'worker-2', ip: '10.0.0.9' },
    );
    const pods = createWorkerPods(api.account);
    await pods.look();
    const fails = (work: Promise<unknown>, message: RegExp) =>
      assert.rejects(work, { kind: 'unavailable', message });
    await fails(pods.claim('tcp://10.0.0.5:1234', never), /No pod with the label sluice\.wipe/);
    await fails(pods.claim('tcp://buildkit:1234', never), /name the headless service/);
    await fails(pods.wipe('tcp://10.0.0.9:1234', never), /without hostNetwork/);
    for (const [verb, status, message] of [
      ['delete', 403, /Sluice delete the pod worker-0 .*add the verb 'delete' for 'pods'/],
      ['get', 403, /Sluice get the pod worker-0 .*add the verb 'get'/],
      ['list', 403, /Sluice list pods .*add the verb 'list'/],
      ['list', 401, /does not accept the token/],
      ['list', 500, /answered 500/],
    ] as const) {
      api.faults.clear();
      api.faults.set(verb, status);
      api.onDelete = () => {};
      await fails(pods.wipe(addressOf(first), never), message);
    }
    api.faults.set('list', 0);
    const asked = pods.wipe(addressOf(first), AbortSignal.timeout(300));
    await assert.rejects(asked, { name: 'TimeoutError' });
    await writeFile(join(api.account.directory, 'ca.crt'), '');
    await fails(pods.wipe(addressOf(first), never), /API server of Kubernetes does not answer/);
    const nowhere = createWorkerPods({ ...api.account, origin: 'https://127.0.0.1:1' });
    await fails(nowhere.claim(addressOf(first), never), /does not answer/);
  });

  test('a server that could not look at first looks again', async () => {
    await using api = await startPodsApi();
    api.faults.set('list', 503);
    const pods = findWorkerPods(api.account);
    assert.ok(pods);
    await assert.rejects(pods.claim(addressOf(first), never));
    api.faults.clear();
    api.pods.push(first);
    // Others may have used it meanwhile.
    assert.equal(await pods.claim(addressOf(first), never), false);
  });

  test('outside Kubernetes there are none', async () => {
    await using directory = await makeTempDir('no-account');
    assert.equal(findWorkerPods(), undefined);
    const env = { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '6443' };
    assert.equal(findPodAccount(env, directory.path), undefined);
    await writeFile(directory.join('token'), 'secret');
    assert.equal(findPodAccount({}, directory.path), undefined);
    assert.equal(findPodAccount(env, directory.path)?.origin, 'https://[fd00::1]:6443');
  });
});
