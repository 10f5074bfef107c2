//! The words that made-up names consist of.

#[rustfmt::skip]
/// Adjectives that insult nobody.
pub(super) const ADJECTIVES: [&str; 117] = [
    "able", "agile", "alert", "amber", "ample", "ancient", "apt", "balmy", "bold", "boring", "brave", "breezy",
    "bright", "brisk", "calm", "candid", "careful", "cheerful", "civil", "clear", "clever", "cosmic", "cosy", "crisp",
    "curious", "dapper", "daring", "deft", "eager", "early", "earnest", "easy", "elated", "elegant", "fair",
    "faithful", "fearless", "festive", "fine", "firm", "fluent", "fond", "frank", "free", "fresh", "friendly",
    "frosty", "genial", "gentle", "glad", "gleaming", "golden", "graceful", "grand", "grateful", "happy", "hardy",
    "hearty", "helpful", "honest", "hopeful", "humble", "jolly", "jovial", "joyful", "keen", "kind", "lively",
    "loyal", "lucid", "lucky", "mellow", "merry", "mild", "mindful", "modest", "neat", "nimble", "noble", "open",
    "patient", "placid", "playful", "polite", "proud", "quick", "quiet", "radiant", "rapid", "ready", "robust",
    "rosy", "serene", "sharp", "silent", "simple", "sincere", "smooth", "snug", "sober", "solid", "spry", "steady",
    "stellar", "sunny", "swift", "tender", "tidy", "tranquil", "trusty", "upbeat", "valiant", "vivid", "warm", "wise",
    "witty", "zesty",
];

#[rustfmt::skip]
/// People to whom science and computing owe something.
pub(super) const SURNAMES: [&str; 262] = [
    "abel", "agnesi", "aiken", "alhazen", "allen", "ampere", "anning", "archimedes", "aristarchus", "aryabhata",
    "avicenna", "avogadro", "babbage", "backus", "bardeen", "bartik", "bell", "berners", "bernoulli", "bessel",
    "bhabha", "bhaskara", "blackwell", "blodgett", "bohr", "boltzmann", "boole", "borg", "born", "bose", "boyd",
    "boyle", "brahe", "brahmagupta", "braun", "brown", "bunsen", "burnell", "byron", "cannon", "cantor", "cardano",
    "carson", "cauchy", "cavendish", "celsius", "cerf", "chandra", "chatelet", "chebyshev", "clarke", "codd",
    "colden", "cori", "coulomb", "cray", "crick", "curie", "dalton", "darwin", "davinci", "davy", "dedekind",
    "descartes", "dijkstra", "dirac", "doppler", "easley", "eddington", "edison", "ehrlich", "einstein", "elion",
    "emeagwali", "engelbart", "eratosthenes", "erdos", "euclid", "euler", "faraday", "fermat", "fermi", "feynman",
    "fibonacci", "fleming", "fourier", "franklin", "fresnel", "galileo", "galois", "galvani", "gauss", "germain",
    "gibbs", "gilbert", "goddard", "godel", "goldberg", "goodall", "gosling", "haber", "hahn", "halley", "hamilton",
    "hawking", "heaviside", "heisenberg", "helmholtz", "henry", "herschel", "hertz", "heyrovsky", "hilbert",
    "hipparchus", "hodgkin", "hofstadter", "hoover", "hopper", "hubble", "humboldt", "huygens", "hypatia", "ishizaka",
    "jackson", "jacobi", "jang", "jemison", "jenner", "johnson", "joliot", "joule", "kapitsa", "kare", "keldysh",
    "keller", "kelvin", "kepler", "khayyam", "khorana", "kilby", "kirch", "kirchhoff", "knuth", "koch", "kovalevsky",
    "lagrange", "lalande", "lamarr", "lamport", "landau", "laplace", "lavoisier", "leakey", "leavitt", "lederman",
    "legendre", "leibniz", "lewin", "lichterman", "linnaeus", "liouville", "liskov", "lister", "lobachevsky",
    "lorentz", "lovelace", "lumiere", "mach", "mahavira", "marconi", "maxwell", "mayer", "mccarthy", "mcclintock",
    "meitner", "mendel", "mendeleev", "mestorf", "michelson", "minkowski", "mirzakhani", "montalcini", "moore",
    "morse", "moser", "napier", "nash", "neumann", "newton", "nightingale", "nobel", "noether", "northcutt", "noyce",
    "oersted", "ohm", "oppenheimer", "panini", "pare", "pascal", "pasteur", "pauli", "pauling", "payne", "perlman",
    "pike", "planck", "poincare", "poisson", "poitras", "priestley", "ptolemy", "pythagoras", "raman", "ramanujan",
    "ramsey", "rayleigh", "ride", "riemann", "ritchie", "robinson", "roentgen", "rubin",
    "rutherford", "sabin", "saha", "salk", "sammet", "schrodinger", "shannon", "shirley", "shockley", "sinoussi",
    "snyder", "spence", "stallman", "stokes", "stonebraker", "swanson", "swartz", "swirles", "tesla", "tharp",
    "thompson", "torvalds", "turing", "varahamihira", "visvesvaraya", "volhard", "volta", "watson", "wegener",
    "weierstrass", "wescoff", "wiles", "wing", "wozniak", "wright", "yalow", "yonath", "yukawa", "zhukovsky",
];
