/** Loads Swagger UI after the first view of an API, in place of the list of its calls. */

const place = /** @type {HTMLElement} */ (document.getElementById('api'));
const list = /** @type {HTMLElement} */ (document.getElementById('calls'));
const { document: address, library = '', style = '', theme = '' } = place.dataset;
const nonce = /** @type {HTMLElement} */ (document.querySelector('script[nonce]')).nonce ?? '';

/**
 * Adds an element that loads a file, and waits until it has done so.
 *
 * @param {HTMLScriptElement | HTMLLinkElement} element
 */
function load(element) {
  element.nonce = nonce;
  return new Promise((resolve, reject) => {
    element.addEventListener('load', resolve);
    element.addEventListener('error', reject);
    document.head.append(element);
  });
}

/** @param {string} href */
function sheet(href) {
  return load(Object.assign(document.createElement('link'), { rel: 'stylesheet', href }));
}

const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', follow);
follow();

// In this order, so that the theme wins.
const sheets = sheet(style).then(() => sheet(theme));
await Promise.all([
  sheets,
  load(Object.assign(document.createElement('script'), { src: library })),
]);

/**
 * A plugin of Swagger UI that leaves out what this page has already, and what confuses screen readers: links in buttons,
 * a second main part, and a field without a name.
 *
 * @param {any} system
 */
function simpler({ React: { createElement } }) {
  /** @param {any} props */
  const DeepLink = ({ text }) => createElement('span', null, text);
  const parts = ['AuthorizeBtnContainer', 'FilterContainer', 'operations', 'Models'];
  /** @param {any} props */
  const CallsLayout = ({ getComponent }) =>
    createElement(
      'div',
      { className: 'swagger-ui' },
      createElement(getComponent('SvgAssets')),
      ...parts.map(name => createElement(getComponent(name, true), { key: name })),
    );
  /** @param {any} Original */
  const named = Original => (/** @type {any} */ props) =>
    createElement(Original, { 'aria-label': 'Body', ...props });
  return { components: { DeepLink, CallsLayout }, wrapComponents: { TextArea: named } };
}

/** @type {any} */ (globalThis).SwaggerUIBundle({
  url: address,
  domNode: place,
  deepLinking: true,
  docExpansion: 'list',
  filter: true,
  tryItOutEnabled: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  plugins: [simpler],
  layout: 'CallsLayout',
  onComplete() {
    /** @type {HTMLElement} */ (place.parentElement).hidden = false;
    list.hidden = true;
  },
});
