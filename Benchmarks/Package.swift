// swift-tools-version: 6.2
import PackageDescription

let swiftSettings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "ConvoyBenchmarks",
    products: [.executable(name: "convoy-bench", targets: ["ConvoyBench"])],
    dependencies: [.package(name: "Convoy", path: "..")],
    targets: [
        // The limit that everything is compared with: plain libcurl and epoll.
        .target(
            name: "CLimit", cSettings: [.treatAllWarnings(as: .error)],
            linkerSettings: [.linkedLibrary("curl")]),
        .executableTarget(
            name: "ConvoyBench",
            dependencies: [
                "CLimit",
                .product(name: "Convoy", package: "Convoy"),
                .product(name: "ConvoyTransport", package: "Convoy"),
                .product(name: "ConvoyTestSupport", package: "Convoy"),
            ],
            swiftSettings: swiftSettings),
    ]
)
