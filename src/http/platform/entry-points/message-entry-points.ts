import { Fault } from '../../../foundation/fault.ts';
import type { ListedMessage } from '../../../storage/rows/index.ts';
import { noContent, ok, pathNumber } from '../../route/declaration.ts';
import { entryPoint } from '../entry-point.ts';
import { messagesQuery, messagesResponse, resentResponse } from '../platform-schemas.ts';

/** Entry points of the messages that receivers do not have yet, for administrators. */
export const messageEntryPoints = [
  entryPoint({
    id: 'listMessages',
    method: 'get',
    path: '/messages',
    tag: 'Messages',
    summary: 'List messages that their receivers do not have yet, newest first',
    access: 'administrator',
    role: 'site',
    query: messagesQuery,
    responses: ok(messagesResponse),
    async run({ query: { state, max, before } }, { messages }) {
      const found = await messages.list({ isDead: state === 'dead', before, limit: max });
      return { messages: found.map(messageView) };
    },
  }),
  entryPoint({
    id: 'resendMessage',
    method: 'post',
    path: '/messages/{messageId}/resend',
    tag: 'Messages',
    summary: 'Send a message again of which no attempt is left',
    access: 'administrator',
    role: 'site',
    params: { messageId: pathNumber },
    responses: noContent,
    faults: ['not-found'],
    async run({ params: { messageId }, note }, { messages }) {
      if (!(await messages.resend(messageId))) {
        throw new Fault(
          'not-found',
          `There is no message ${messageId} without attempts: GET /platform/messages?state=dead lists them`,
          { phase: 'request' },
        );
      }
      note('message.resend', String(messageId));
      return undefined;
    },
  }),
  entryPoint({
    id: 'resendMessages',
    method: 'post',
    path: '/messages/resend',
    tag: 'Messages',
    summary: 'Send all messages again of which no attempt is left',
    access: 'administrator',
    role: 'site',
    responses: ok(resentResponse),
    async run({ note }, { messages }) {
      const resent = await messages.resendAll();
      note('message.resend', `${resent} messages`);
      return { resent };
    },
  }),
];

function messageView(message: ListedMessage) {
  const { id, event, target, kind, subject, createdAt, attempts, deadAt, error } = message;
  return {
    id,
    event,
    target,
    kind,
    subject,
    attempts,
    time: new Date(createdAt).toISOString(),
    state: deadAt === null ? ('waiting' as const) : ('dead' as const),
    ...(error === null ? {} : { error }),
  };
}
