import { once } from 'node:events';
import { connect } from 'node:net';
import { agentMessage, agentMessagesIn, refusal, type SshAgent } from './ssh-agent.ts';
import { wireStrings } from './ssh-wire.ts';

// It may have far more keys than a build gets. The limit of OpenSSH.
const longestResponse = 256 * 1024;
const passed: readonly unknown[] = [agentMessage.requestIdentities, agentMessage.signRequest];

/**
 * Returns the agent at a Unix socket of this machine. It lists its keys and signs with them. Other messages, such as
 * those that add or remove keys, do not reach it.
 */
export function socketAgent(path: string): SshAgent {
  return {
    async connect(signal) {
      const socket = connect({ path, signal });
      // Whoever reads or writes gets the error too.
      socket.on('error', () => {});
      await once(socket, 'connect');
      const responses = agentMessagesIn(socket, longestResponse);
      return {
        async respond(message) {
          if (!passed.includes(message[0])) return refusal;
          socket.write(wireStrings(message));
          const { value } = await responses.next();
          if (value) return value;
          throw new Error('The agent closed the connection');
        },
        [Symbol.dispose]: () => void socket.destroy(),
      };
    },
  };
}
