/** Messages about events: webhooks and e-mails. */

export { type MessageSenderDeps, type NoteMessages, startMessageSender } from './message-sender.ts';
export { createMailDelivery, isMailAddress, type MailSettings } from './send-mail.ts';
export { createWebhookDelivery, type Delivery, type Webhook } from './send-webhook.ts';
export {
  type Announce,
  announceNothing,
  type BuildEnded,
  createAnnounce,
  eventKinds,
  mailTarget,
} from './site-event.ts';
