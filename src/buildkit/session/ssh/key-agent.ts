import { Semaphore } from '../../../foundation/semaphore.ts';
import { type AgentConnection, agentMessage, refusal, type SshAgent } from './ssh-agent.ts';
import type { SshKey } from './ssh-key.ts';
import { WireReader, wireStrings, wireUint32 } from './ssh-wire.ts';

// In the whole process: signatures are computed on the threads that also read files, and a step may request any number of them.
const signing = new Semaphore({ limit: 1 });

/** Returns an agent that has these keys: it lists them and signs with them, and refuses everything else. */
export function keyAgent(keys: readonly SshKey[]): SshAgent {
  const respond = async (message: Buffer): Promise<Buffer> => {
    switch (message[0]) {
      case agentMessage.requestIdentities:
        return identitiesOf(keys);
      case agentMessage.signRequest:
        return (await signed(keys, message.subarray(1))) ?? refusal;
      default:
        return refusal;
    }
  };
  const connection: AgentConnection = { respond, [Symbol.dispose]() {} };
  return { connect: async () => connection };
}

function identitiesOf(keys: readonly SshKey[]): Buffer {
  return Buffer.concat([
    Buffer.from([agentMessage.identitiesAnswer]),
    wireUint32(keys.length),
    // The comment of a key names a person, and nothing here requires it.
    ...keys.map(({ publicKey }) => wireStrings(publicKey, '')),
  ]);
}

/** Returns the response to a request to sign; undefined for a request that is invalid or cannot be met. */
async function signed(keys: readonly SshKey[], request: Buffer): Promise<Buffer | undefined> {
  try {
    const reader = new WireReader(request);
    const [publicKey, data, flags] = [reader.string(), reader.string(), reader.uint32()];
    const key = keys.find(one => one.publicKey.equals(publicKey));
    const signature = key && (await signing.run(() => key.sign(data, flags)));
    if (!signature) return undefined;
    return Buffer.concat([Buffer.from([agentMessage.signResponse]), wireStrings(signature)]);
  } catch {
    return undefined;
  }
}
