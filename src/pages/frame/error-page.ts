import type { Fault } from '../../foundation/fault.ts';
import { html } from './html.ts';
import type { Page } from './page-layout.ts';

const headings: Readonly<Record<number, string>> = {
  400: 'This cannot be done',
  401: 'Please log in',
  403: 'Not allowed',
  404: 'Not found',
  429: 'Too many requests',
  500: 'Something went wrong',
};

const withoutLogin = 'This requires a login with the right to see or do it.';
/** How a program sends a login: the end of the message. */
const forPrograms =
  /(?:: )?(?:send .*|This requires the name and password of an account of the server .*)$/s;

/**
 * Returns the page for a failure: what happened, what to do, and the id under which the log has the details.
 *
 * @param address of the page that failed, for the way back after a login
 */
export function errorPage(fault: Fault, requestId: string, address: string): Page {
  const status = fault.apiStatus;
  const heading = headings[status] ?? headings[status < 500 ? 400 : 500] ?? '';
  return {
    title: heading,
    status,
    content: html`<h1>${heading}</h1>
<p class="failure">${status === 401 ? fault.message.replace(forPrograms, '') || withoutLogin : fault.message}</p>
${status === 401 && html`<p><a class="button" href="/view/login?to=${encodeURIComponent(address)}">Log in</a></p>`}
<p class="minor">Error ID: <code>${requestId}</code></p>`,
  };
}
