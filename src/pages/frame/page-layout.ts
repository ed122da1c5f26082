import type { Fault } from '../../foundation/fault.ts';
import { type Html, html } from './html.ts';

/** What a page shows. */
export interface Page {
  /** Names the page in the tab and in bookmarks. */
  readonly title: string;
  readonly content: Html;
  /** Modules in `browser/` that make the page better, by their names without `.js`. */
  readonly scripts?: readonly string[];
  /** HTTP status. Default: 200. */
  readonly status?: number;
  /** Seconds until a browser without scripts loads the page again. */
  readonly refreshSeconds?: number;
}

/** What is around the content of a page. */
export interface Surroundings {
  readonly path: string;
  readonly assetsBase: string;
  readonly nonce: string;
  readonly version: string;
  /** Address of the documentation; undefined without one. */
  readonly documentation: string | undefined;
  readonly viewer: ShownViewer;
}

/** The person at the top of a page. */
export interface ShownViewer {
  readonly name: string | undefined;
  readonly isAdministrator: boolean;
  /** True for a browser with a session whose person is not known, because the page failed before that. */
  readonly mayBeLoggedIn?: boolean;
}

interface Link {
  readonly to: string;
  readonly text: string;
  readonly isForAdministrators?: true;
}

const headerLinks: readonly Link[] = [
  { to: '/', text: 'Ask for a container' },
  { to: '/view/builds', text: 'Builds' },
  { to: '/view/containers', text: 'Containers' },
  { to: '/view/repositories', text: 'Repositories' },
  { to: '/view/inspect', text: 'Images' },
  { to: '/view/usage', text: 'Usage', isForAdministrators: true },
  { to: '/docs', text: 'API' },
];

/** Returns the whole document of a page. */
export function layout(
  page: Page,
  { path, assetsBase, nonce, version, documentation, viewer }: Surroundings,
): Html {
  const { title, content, scripts = [], refreshSeconds } = page;
  const shown = headerLinks.filter(link => !link.isForAdministrators || viewer.isAdministrator);
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Sluice</title>
<link rel="icon" type="image/svg+xml" href="${assetsBase}/logo.svg">
<link rel="stylesheet" href="${assetsBase}/style.css" nonce="${nonce}">
${refreshSeconds !== undefined && html`<noscript><meta http-equiv="refresh" content="${refreshSeconds}"></noscript>`}
</head>
<body${viewer.name === undefined && html` data-anonymous`}>
<a class="skip" href="#content">Skip to the content</a>
<header class="site">
<a class="brand" href="/"><img src="${assetsBase}/logo.svg" alt="" width="20" height="20">Sluice</a>
<nav aria-label="Pages">${shown.map(
    ({ to, text }) => html`<a href="${to}"${currentMark(to, path)}>${text}</a>`,
  )}</nav>
<span class="person">${personPart(viewer, path)}</span>
</header>
<main id="content">
${content}
</main>
<footer class="site"><span>Sluice ${version}</span>${documentation !== undefined && html`<a href="${documentation}">Documentation</a>`}</footer>
${['common', ...scripts].map(
  name => html`<script type="module" src="${assetsBase}/${name}.js" nonce="${nonce}"></script>`,
)}
</body>
</html>
`;
}

function personPart({ name, mayBeLoggedIn }: ShownViewer, path: string): Html {
  if (name !== undefined) return html`<a href="/view/account">${name}</a>`;
  return mayBeLoggedIn
    ? html`<a href="/view/account">Account</a>`
    : html`<a href="/view/login?to=${encodeURIComponent(path)}">Log in</a>`;
}

/** Marks the link of the page, or of the part of the site that the page is in. */
function currentMark(to: string, path: string): Html | undefined {
  if (path === to) return html` aria-current="page"`;
  return path.startsWith(`${to}/`) ? html` aria-current="true"` : undefined;
}

const errorHeadings: Readonly<Record<number, string>> = {
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

/** Returns the parts of the site where a person looks for what an address does not have. */
function nextSteps(address: string): readonly Link[] {
  const shown = headerLinks.filter(({ isForAdministrators }) => !isForAdministrators);
  const near = shown.filter(({ to }) => to !== '/' && address.startsWith(`${to}/`));
  return [...near, ...shown.slice(0, 1)];
}

/**
 * Returns the page for a failure: what happened, what to do, and the id under which the log has the details.
 *
 * @param address of the page that failed, for the way back after a login
 */
export function errorPage(fault: Fault, requestId: string, address: string): Page {
  const status = fault.apiStatus;
  const isNoRoute = status === 404 && fault.message.startsWith('No such route');
  const message = isNoRoute ? 'This server has no page at this address.' : fault.message;
  const heading = errorHeadings[status] ?? errorHeadings[status < 500 ? 400 : 500] ?? '';
  return {
    title: heading,
    status,
    content: html`<h1>${heading}</h1>
<p class="failure">${status === 401 ? fault.message.replace(forPrograms, '') || withoutLogin : message}</p>
${status === 401 && html`<p><a class="button" href="/view/login?to=${encodeURIComponent(address)}">Log in</a></p>`}
${status === 404 && html`<p class="actions">${nextSteps(address).map(({ to, text }) => html`<a class="button quiet" href="${to}">${text}</a>`)}</p>`}
<p class="minor">Error ID: <code>${requestId}</code></p>`,
  };
}
