import {
  constants,
  createDecipheriv,
  createPrivateKey,
  generateKeyPair,
  type KeyObject,
  privateDecrypt,
  randomBytes,
} from 'node:crypto';
import { promisify } from 'node:util';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { PairingRow, PairingStore, SecretBox } from '../../storage/rows/index.ts';
import type { Endpoint } from '../endpoint.ts';
import type { PairingKey } from '../remote-platform.ts';
import { pairingPlace } from '../seal-again.ts';

/** Key pairs with which platforms encrypt secrets, one at a time for each service of a platform. */
export interface PairingKeys {
  /** Returns the key pair for a new pairing: the last one for a day, then a new one. */
  lease(service: string, endpoint: Endpoint): Promise<Pick<PairingRow, 'id' | 'publicKey'>>;
  /** Returns the key pair that a platform last paired with, if it is at most 30 days old. */
  of(endpoint: Endpoint): Promise<PairingKey | undefined>;
  isKept(id: string): Promise<boolean>;
  /** Removes key pairs older than 30 days; returns how many. */
  purge(signal?: AbortSignal): Promise<number>;
}

interface PairingKeysDeps {
  readonly store: PairingStore;
  readonly box: SecretBox;
  readonly now?: () => number;
}

const leaseMs = 24 * 3_600_000;
const keptMs = 30 * leaseMs;
const modulusLength = 2048;
const idBytes = 16;
const generate = promisify(generateKeyPair);

/** An id belongs to one key pair and is never reused. Source: reference service, sections 1.9 and 11.6. */
export function createPairingKeys({ store, box, now = Date.now }: PairingKeysDeps): PairingKeys {
  const leases = new SingleFlight<PairingRow>();

  const create = async (service: string, endpoint: Endpoint): Promise<PairingRow> => {
    const { publicKey, privateKey } = await generate('rsa', { modulusLength });
    const id = randomBytes(idBytes).toString('hex');
    const secret = privateKey.export({ type: 'pkcs8', format: 'der' }).toString('base64');
    const row: PairingRow = {
      id,
      publicKey: publicKey.export({ type: 'spki', format: 'der' }).toString('base64'),
      sealedPrivateKey: box.seal(secret, pairingPlace(id)),
      createdAt: now(),
    };
    await store.insert(service, endpoint.id, row);
    return row;
  };

  const isReadable = ({ id, sealedPrivateKey }: PairingRow): boolean => {
    try {
      return box.open(sealedPrivateKey, pairingPlace(id)) !== '';
    } catch {
      // Encrypted with a key that is gone.
      return false;
    }
  };

  const lease = async (service: string, endpoint: Endpoint): Promise<PairingRow> => {
    const last = await store.youngest(endpoint.id, service);
    // A key pair from the future was created by a wrong clock: without a new date it would be leased until then.
    if (last && last.createdAt > now() + leaseMs) await store.redate(last.id, now());
    else if (last && now() < last.createdAt + leaseMs && isReadable(last)) return last;
    return create(service, endpoint);
  };

  return {
    lease: (service, endpoint) =>
      leases.run(() => lease(service, endpoint), { key: `${service} ${endpoint.id}` }),

    async of(endpoint) {
      const row = await store.youngest(endpoint.id);
      if (!row || now() >= row.createdAt + keptMs) return undefined;
      return {
        id: row.id,
        open(packet) {
          const der = Buffer.from(box.open(row.sealedPrivateKey, pairingPlace(row.id)), 'base64');
          return openPacket(packet, createPrivateKey({ key: der, type: 'pkcs8', format: 'der' }));
        },
      };
    },

    isKept: async id => (await store.find(id)) !== undefined,
    purge: signal => store.purge(now() - keptMs, signal),
  };
}

const packetVersion = '1';
const forPublicKey = 'P';
const packetCipher = 'aes-128-ecb';
const base64 = /^[A-Za-z0-9+/]+={0,2}$/;

/**
 * Returns the secret in a packet, as platforms in the field send it to the owner of a private key: `1\P\<key>\<data>`.
 * The key is an AES-128 key, encrypted with RSA (PKCS #1 v1.5). The data is encrypted with AES in ECB mode (PKCS #7
 * padding). Both are in base64. Nothing in a packet proves who wrote it: accept it only from a platform that is
 * trusted anyway. Throws an `Error` for text that is not a packet, or for a packet made for another key.
 */
export function openPacket(packet: string, privateKey: KeyObject): string {
  const [found, kind, key = '', data = '', ...more] = packet.split('\\');
  if (found !== packetVersion || kind !== forPublicKey || more.length > 0) throw unreadablePacket();
  if (!base64.test(key) || !base64.test(data)) throw unreadablePacket();
  try {
    // With a wrong key this returns random bytes of a random length, which reveals nothing about the padding.
    const contentKey = privateDecrypt(
      { key: privateKey, padding: constants.RSA_PKCS1_PADDING },
      Buffer.from(key, 'base64'),
    );
    const decipher = createDecipheriv(packetCipher, contentKey, null);
    const clear = Buffer.concat([decipher.update(data, 'base64'), decipher.final()]);
    return new TextDecoder('utf-8', { fatal: true }).decode(clear);
  } catch {
    // One error for all causes.
    throw unreadablePacket();
  }
}

function unreadablePacket(): Error {
  return new Error('The packet is malformed, or was encrypted for another key');
}
